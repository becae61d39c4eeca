/* Compares a linked program with the signature of its arguments.
 *
 * The k-th pointer argument must be the storage block at binding k, the j-th scalar argument the
 * uniform at location j. The uniforms sp_group_offset and sp_null are found by name. */
#include "match.h"
#include "dl/gl.h"
#include "egl/context/names.h"

#include <errno.h>
#include <string.h>

static int32_t resource(uint32_t program, uint32_t interface, uint32_t index, uint32_t what)
{
    int32_t value = -1;
    sp_glGetProgramResourceiv(program, interface, index, 1, &what, 1, NULL, &value);
    return value;
}

static int match_blocks(struct sp_egl *dev, struct sp_egl_kernel *k, struct sp_text *why)
{
    int32_t count = 0;
    sp_glGetProgramInterfaceiv(k->program, GL_SHADER_STORAGE_BLOCK, GL_ACTIVE_RESOURCES, &count);
    k->blocks = (uint32_t)count;
    if (k->blocks > dev->info.max_blocks) {
        sp_text_add(why, "it uses %u storage blocks; the device allows %u", k->blocks, dev->info.max_blocks);
        return -ENOEXEC;
    }
    for (uint32_t i = 0; i < k->blocks; i++) {
        char name[128] = "";
        int32_t binding = resource(k->program, GL_SHADER_STORAGE_BLOCK, i, GL_BUFFER_BINDING);
        sp_glGetProgramResourceName(k->program, GL_SHADER_STORAGE_BLOCK, i, (int32_t)sizeof name, NULL, name);
        if (binding < 0 || (uint32_t)binding >= k->sig.npointers) {
            sp_text_add(why, "block %s is at binding %d, but the arguments have %u pointer(s): the k-th is binding k",
                        name, (int)binding, k->sig.npointers);
            return -ENOEXEC;
        }
        k->used[binding] = 1;
    }
    return 0;
}

static int fits(char letter, uint32_t type)
{
    switch (letter) {
    case 'f':
        return type == GL_FLOAT;
    case 'd':
        return type == GL_DOUBLE;
    case 'i':
        return type == GL_INT || type == GL_BOOL;
    case 'u':
        return type == GL_UNSIGNED_INT || type == GL_BOOL;
    case 'I':
        return type == GL_INT64_ARB || type == GL_UNSIGNED_INT_VEC2;
    default:
        return type == GL_UNSIGNED_INT64_ARB || type == GL_UNSIGNED_INT_VEC2;
    }
}

static const char *type_name(uint32_t type)
{
    switch (type) {
    case GL_FLOAT:
        return "float";
    case GL_DOUBLE:
        return "double";
    case GL_INT:
        return "int";
    case GL_UNSIGNED_INT:
        return "uint";
    case GL_BOOL:
        return "bool";
    case GL_INT64_ARB:
        return "int64_t";
    case GL_UNSIGNED_INT64_ARB:
        return "uint64_t";
    case GL_UNSIGNED_INT_VEC2:
        return "uvec2";
    default:
        return "of a type that no argument has";
    }
}

static int match_uniform(struct sp_egl_kernel *k, const char *letters, uint32_t i, struct sp_text *why)
{
    char name[128] = "";
    int32_t location = resource(k->program, GL_UNIFORM, i, GL_LOCATION);
    uint32_t type = (uint32_t)resource(k->program, GL_UNIFORM, i, GL_TYPE);
    sp_glGetProgramResourceName(k->program, GL_UNIFORM, i, (int32_t)sizeof name, NULL, name);
    if (location < 0) {
        sp_text_add(why, "uniform %s belongs to a uniform block or is an atomic counter: arguments are storage blocks and "
                         "plain uniforms",
                    name);
        return -ENOEXEC;
    }
    if (strcmp(name, "sp_group_offset") == 0 && type == GL_UNSIGNED_INT_VEC3) {
        k->at_offset = location;
        return 0;
    }
    if (strcmp(name, "sp_null") == 0 && type == GL_UNSIGNED_INT) {
        k->at_null = location;
        return 0;
    }
    if ((uint32_t)location >= k->nscalars) {
        sp_text_add(why, "uniform %s is at location %d, but the arguments have %u scalar(s): the j-th is location j",
                    name, (int)location, k->nscalars);
        return -ENOEXEC;
    }
    if (!fits(letters[location], type)) {
        const char *wanted = letters[location] == 'f'   ? "float"
                             : letters[location] == 'd' ? "double"
                             : letters[location] == 'i' ? "int"
                             : letters[location] == 'u' ? "uint"
                             : letters[location] == 'I' ? "int64_t or uvec2"
                                                        : "uint64_t or uvec2";
        sp_text_add(why, "uniform %s (location %d) is %s, the argument is %s", name, (int)location, type_name(type),
                    wanted);
        return -ENOEXEC;
    }
    k->scalars[location].type = type;
    k->scalars[location].location = location;
    return 0;
}

int sp_egl_match(struct sp_egl *dev, struct sp_egl_kernel *k, const char *letters, struct sp_text *why)
{
    int32_t count = 0, size[3] = {0};
    k->at_offset = k->at_null = -1;
    sp_glGetProgramiv(k->program, GL_COMPUTE_WORK_GROUP_SIZE, size);
    for (int i = 0; i < 3; i++)
        k->group_size[i] = (uint32_t)size[i];
    int rc = match_blocks(dev, k, why);
    sp_glGetProgramInterfaceiv(k->program, GL_UNIFORM, GL_ACTIVE_RESOURCES, &count);
    for (uint32_t i = 0; rc == 0 && i < (uint32_t)count; i++)
        rc = match_uniform(k, letters, i, why);
    return rc;
}
