/* Makes programs: compiles them from GLSL or SPIR-V, or loads a stored binary, then compares them
 * with the signature of their arguments. */
#include "kernel.h"
#include "core/base.h"
#include "dl/gl.h"
#include "egl/context/messages.h"
#include "egl/context/names.h"
#include "egl/device/references.h"
#include "egl/device/request.h"
#include "match.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Longest time in ns that a caller waits until the owner thread has made a program. The compiler
 * may take minutes for a large shader. */
static const uint64_t PATIENCE_NS = 300000000000u;

struct load_request {
    struct sp_egl_request r;
    uint32_t image;
    uint32_t format;
    size_t nbytes;
    struct sp_egl_kernel *k;
    char scalars[SP_MAX_ARGS + 1];
    char entry[256];
    char why[8192];
    char source[]; /* the image, followed by a zero byte */
};

static void shader_log(uint32_t shader, struct sp_text *why)
{
    char log[6000] = "";
    sp_glGetShaderInfoLog(shader, (int32_t)sizeof log, NULL, log);
    sp_text_add(why, "%s", log);
}

static uint32_t compile(struct sp_egl *dev, const struct load_request *l, struct sp_text *why)
{
    int32_t ok = 0;
    const char *text = l->source;
    int32_t length = (int32_t)l->nbytes;
    uint32_t shader = sp_glCreateShader(GL_COMPUTE_SHADER);
    if (l->image == SP_EGL_GLSL) {
        sp_glShaderSource(shader, 1, &text, &length);
        sp_glCompileShader(shader);
    } else {
        sp_glShaderBinary(1, &shader, GL_SHADER_BINARY_FORMAT_SPIR_V, text, length);
        if (dev->info.version >= 46)
            sp_glSpecializeShader(shader, l->entry, 0, NULL, NULL);
        else
            sp_glSpecializeShaderARB(shader, l->entry, 0, NULL, NULL);
    }
    sp_glGetShaderiv(shader, GL_COMPILE_STATUS, &ok);
    if (ok)
        return shader;
    shader_log(shader, why);
    if (!why->used)
        sp_text_add(why, "%s", dev->error[0] ? dev->error : "the driver rejects it without a message");
    sp_glDeleteShader(shader);
    return 0;
}

static int link(struct sp_egl *dev, const struct load_request *l, uint32_t program, struct sp_text *why)
{
    int32_t ok = 0;
    if (sp_egl_is(dev, SP_EGL_BINARIES))
        sp_glProgramParameteri(program, GL_PROGRAM_BINARY_RETRIEVABLE_HINT, 1);
    if (l->image == SP_EGL_BINARY) {
        sp_glProgramBinary(program, l->format, l->source, (int32_t)l->nbytes);
    } else {
        uint32_t shader = compile(dev, l, why);
        if (!shader)
            return -ENOEXEC;
        sp_glAttachShader(program, shader);
        sp_glLinkProgram(program);
        /* GL deletes the shader later, together with the program */
        sp_glDeleteShader(shader);
    }
    sp_glGetProgramiv(program, GL_LINK_STATUS, &ok);
    if (ok)
        return 0;
    if (l->image == SP_EGL_BINARY)
        return -ESTALE;
    char log[6000] = "";
    sp_glGetProgramInfoLog(program, (int32_t)sizeof log, NULL, log);
    sp_text_add(why, "%s", log[0] ? log : "the driver cannot link it and gives no message");
    return -ENOEXEC;
}

static int run_load(struct sp_egl *dev, struct sp_egl_request *r)
{
    struct load_request *l = (struct load_request *)r;
    struct sp_text why = sp_text_in(l->why, sizeof l->why);
    uint32_t program = sp_glCreateProgram();
    if (!program)
        return -ENODEV;
    sp_egl_complaint(dev, 1);
    dev->error[0] = '\0';
    int rc = link(dev, l, program, &why);
    l->k->program = program;
    if (rc == 0)
        rc = sp_egl_match(dev, l->k, l->scalars, &why);
    sp_egl_complaint(dev, 1);
    dev->error[0] = '\0'; /* drops this program's errors, so that no job reports them */
    if (rc) {
        sp_glDeleteProgram(program);
        free(l->k);
    }
    return rc;
}

struct unload_request {
    struct sp_egl_request r;
    struct sp_egl_kernel *k;
};

static int run_unload(struct sp_egl *dev, struct sp_egl_request *r)
{
    struct sp_egl_kernel *k = ((struct unload_request *)r)->k;
    if (dev->program == k->program) {
        sp_glUseProgram(0);
        dev->program = 0;
    }
    sp_glDeleteProgram(k->program);
    free(k);
    return 0;
}

static void drop_load(struct sp_egl *dev, struct sp_egl_request *r)
{
    struct load_request *l = (struct load_request *)r;
    if (r->rc == 0) {
        sp_glDeleteProgram(l->k->program);
        free(l->k);
    }
    (void)dev;
}

static struct sp_egl_kernel *make(struct sp_egl *dev, const struct sp_signature *sig)
{
    struct sp_egl_kernel *k = calloc(1, sizeof *k);
    if (!k)
        return NULL;
    k->magic = SP_EGL_KERNEL_MAGIC;
    k->dev = dev;
    k->sig = *sig;
    uint32_t pointers = 0;
    for (uint32_t i = 0; i < sig->nargs; i++) {
        const struct sp_arg *arg = &sig->args[i];
        if (arg->is_pointer)
            k->pointer_at[pointers++] = arg->offset;
        else
            k->scalars[k->nscalars++] = (struct sp_egl_scalar){.offset = arg->offset, .nbytes = arg->nbytes};
    }
    return k;
}

int sp_egl_load(struct sp_egl *dev, uint32_t image, const void *source, size_t nbytes, uint32_t format,
                const char *entry, const struct sp_signature *sig, const char *scalars, char *why, size_t why_nbytes,
                struct sp_egl_kernel **out)
{
    if (!sp_device_usable(&dev->common))
        return -ECHILD;
    if (atomic_load(&dev->common.lost))
        return -ENODEV;
    if (sig->nargs > SP_MAX_ARGS || nbytes > INT32_MAX || why_nbytes == 0)
        return -EINVAL;
    why[0] = '\0';
    if (sig->npointers > dev->info.max_bindings) {
        snprintf(why, why_nbytes, "%u pointer arguments; the device allows %u", sig->npointers,
                 dev->info.max_bindings);
        return -ENOEXEC;
    }
    struct load_request *l = calloc(1, sizeof *l + nbytes + 1);
    struct sp_egl_kernel *k = make(dev, sig);
    if (!l || !k) {
        free(l);
        free(k);
        return -ENOMEM;
    }
    l->r.run = run_load;
    l->r.drop = drop_load;
    l->image = image;
    l->format = format;
    l->nbytes = nbytes;
    l->k = k;
    snprintf(l->scalars, sizeof l->scalars, "%s", scalars);
    snprintf(l->entry, sizeof l->entry, "%s", entry);
    memcpy(l->source, source, nbytes);
    int rc = sp_egl_request_keep(dev, &l->r, PATIENCE_NS);
    if (rc == -ENOEXEC)
        snprintf(why, why_nbytes, "%s", l->why);
    if (rc == -ENODEV)
        free(k); /* the owner thread will never run the request, so nothing else frees `k` */
    if (rc == 0) {
        atomic_fetch_add(&sp_live()->kernels, 1);
        sp_egl_hold(dev);
        *out = k;
    }
    sp_egl_request_end(&l->r);
    return rc;
}

void sp_egl_unload(struct sp_egl_kernel *k)
{
    if (!k || !sp_device_usable(&k->dev->common))
        return;
    k->magic = 0;
    atomic_fetch_sub(&sp_live()->kernels, 1);
    struct sp_egl *dev = k->dev;
    struct unload_request *u = calloc(1, sizeof *u);
    if (u) { /* if calloc failed, nobody deletes the GL program before the context ends */
        u->k = k;
        u->r.run = run_unload;
        if (sp_egl_request(dev, &u->r, 0) == -ENODEV)
            /* the owner thread has ended and will not free `k`; the GL program ended with its
             * context */
            free(k);
    }
    sp_egl_let_go(dev);
}

struct binary_request {
    struct sp_egl_request r;
    struct sp_egl_kernel *k;
    uint32_t format;
    void *bytes;
    size_t nbytes;
};

static int run_binary(struct sp_egl *dev, struct sp_egl_request *r)
{
    struct binary_request *b = (struct binary_request *)r;
    int32_t length = 0, got = 0;
    if (!sp_egl_is(dev, SP_EGL_BINARIES))
        return -ENOTSUP;
    sp_glGetProgramiv(b->k->program, GL_PROGRAM_BINARY_LENGTH, &length);
    if (length <= 0 || !(b->bytes = malloc((size_t)length)))
        return -ENOTSUP;
    sp_glGetProgramBinary(b->k->program, length, &got, &b->format, b->bytes);
    b->nbytes = (size_t)got;
    if (got > 0)
        return 0;
    free(b->bytes);
    return -ENOTSUP;
}

static void drop_binary(struct sp_egl *dev, struct sp_egl_request *r)
{
    (void)dev;
    if (r->rc == 0)
        free(((struct binary_request *)r)->bytes);
}

int sp_egl_binary(struct sp_egl_kernel *k, uint32_t *format, void **out, size_t *nbytes)
{
    struct binary_request *b = calloc(1, sizeof *b);
    if (!b)
        return -ENOMEM;
    b->k = k;
    b->r.run = run_binary;
    b->r.drop = drop_binary;
    int rc = sp_egl_request_keep(k->dev, &b->r, PATIENCE_NS);
    if (rc == 0) {
        *format = b->format;
        *out = b->bytes;
        *nbytes = b->nbytes;
    }
    sp_egl_request_end(&b->r);
    return rc;
}

void sp_egl_binary_free(void *binary)
{
    free(binary);
}

void sp_egl_kernel_shape(const struct sp_egl_kernel *k, struct sp_egl_shape *out)
{
    memcpy(out->group_size, k->group_size, sizeof out->group_size);
    out->any_grid = k->at_offset >= 0;
    out->blocks = k->blocks;
}
