/* Checks a packed argument block against its signature: the last gate before a kernel dereferences anything.
 *
 * Runs on every checked launch, so it touches nothing but the signature, the block and a small stack. */
#include "include/sp_cmd.h"

#include <errno.h>
#include <string.h>

static uint64_t scalar(const struct sp_arg *arg, const unsigned char *args)
{
    if (arg->nbytes == 8) {
        uint64_t v;
        memcpy(&v, args + arg->offset, 8);
        return v;
    }
    uint32_t v;
    memcpy(&v, args + arg->offset, 4);
    return v;
}

static int multiply_add(uint64_t a, uint64_t b, uint64_t *sum)
{
    uint64_t product;
    if (__builtin_mul_overflow(a, b, &product) || __builtin_add_overflow(*sum, product, sum))
        return -EOVERFLOW;
    return 0;
}

/* Replaces the four values at `v` by the first: elements from the first to the last of n1 x n2 with strides s1, s2. */
static int span(uint64_t v[4])
{
    uint64_t elements = 1;
    if (v[0] == 0 || v[2] == 0) {
        v[0] = 0;
        return 0;
    }
    int rc = multiply_add(v[0] - 1, v[1], &elements);
    if (rc == 0)
        rc = multiply_add(v[2] - 1, v[3], &elements);
    v[0] = elements;
    return rc;
}

static int binary(uint32_t op, uint64_t a, uint64_t b, uint64_t *out)
{
    switch (op) {
    case SP_EXTENT_ADD:
        return __builtin_add_overflow(a, b, out) ? -EOVERFLOW : 0;
    case SP_EXTENT_SUB:
        *out = a > b ? a - b : 0;
        return 0;
    case SP_EXTENT_MUL:
        return __builtin_mul_overflow(a, b, out) ? -EOVERFLOW : 0;
    case SP_EXTENT_DIV:
        if (b == 0)
            return -EINVAL;
        *out = a / b + (a % b != 0);
        return 0;
    default:
        return -EINVAL;
    }
}

/* What a step puts on the stack: an argument or a constant. 0: something else, or no argument of this signature. */
static inline int pushed(const struct sp_signature *sig, const struct sp_extent_step *step, const unsigned char *args,
                         uint64_t *out)
{
    *out = step->operand;
    if (step->op == SP_EXTENT_CONST)
        return 1;
    if (step->op != SP_EXTENT_ARG || step->operand >= sig->nargs)
        return 0;
    *out = scalar(&sig->args[step->operand], args);
    return 1;
}

/* Elements that the pointer argument `arg` must cover. */
static int extent(const struct sp_signature *sig, const struct sp_arg *arg, const unsigned char *args, uint64_t *out)
{
    uint64_t stack[SP_EXTENT_STACK];
    uint32_t depth = 0;
    const struct sp_extent_step *const program = &sig->program[arg->program_at];
    /* "n" and "span(n1, s1, n2, s2)" are most of them, and take half the time this way. */
    if (arg->program_count == 1 && pushed(sig, program, args, out))
        return 0;
    if (arg->program_count == 5 && program[4].op == SP_EXTENT_SPAN && pushed(sig, program, args, &stack[0]) &&
        pushed(sig, program + 1, args, &stack[1]) && pushed(sig, program + 2, args, &stack[2]) &&
        pushed(sig, program + 3, args, &stack[3])) {
        int rc = span(stack);
        *out = stack[0];
        return rc;
    }
    for (uint32_t i = 0; i < arg->program_count; i++) {
        const struct sp_extent_step *step = &program[i];
        if (step->op == SP_EXTENT_ARG || step->op == SP_EXTENT_CONST) {
            if (depth == SP_EXTENT_STACK || (step->op == SP_EXTENT_ARG && step->operand >= sig->nargs))
                return -EINVAL;
            stack[depth++] =
                step->op == SP_EXTENT_CONST ? step->operand : scalar(&sig->args[step->operand], args);
        } else if (step->op == SP_EXTENT_SPAN) {
            if (depth < 4)
                return -EINVAL;
            depth -= 3;
            int rc = span(&stack[depth - 1]);
            if (rc)
                return rc;
        } else {
            if (depth < 2)
                return -EINVAL;
            depth -= 1;
            int rc = binary(step->op, stack[depth - 1], stack[depth], &stack[depth - 1]);
            if (rc)
                return rc;
        }
    }
    if (depth != 1)
        return -EINVAL;
    *out = stack[0];
    return 0;
}

static int check_pointer(const struct sp_signature *sig, const struct sp_arg *arg, const unsigned char *args,
                         uint64_t covered, uint64_t *need)
{
    uint64_t address;
    memcpy(&address, args + arg->offset, 8);
    uint64_t elements = 0;
    *need = 0;
    if (address == 0 && arg->is_optional)
        return 0;
    if (arg->program_count) {
        if (arg->program_at > SP_MAX_EXTENT_OPS || arg->program_count > SP_MAX_EXTENT_OPS - arg->program_at)
            return -EINVAL;
        int rc = extent(sig, arg, args, &elements);
        if (rc)
            return rc;
        if (__builtin_mul_overflow(elements, (uint64_t)arg->element_nbytes, need))
            return -EOVERFLOW;
        if (*need > covered)
            return -ERANGE;
    }
    /* An empty buffer may have no address; a kernel that needs nothing of it never looks. */
    return address == 0 && (*need || !arg->program_count) ? -EFAULT : 0;
}

int sp_signature_check(const struct sp_signature *sig, const void *args, uint32_t *bad, uint64_t *need)
{
    uint64_t unused;
    uint32_t nowhere;
    if (!need)
        need = &unused;
    if (!bad)
        bad = &nowhere;
    if (sig->nargs > SP_MAX_ARGS || sig->npointers > sig->nargs)
        return -EINVAL;
    const unsigned char *bytes = args;
    const unsigned char *extents = bytes + sig->args_nbytes;
    for (uint32_t i = 0; i < sig->nargs; i++) {
        const struct sp_arg *arg = &sig->args[i];
        *bad = i;
        if (arg->nbytes > sig->args_nbytes || arg->offset > sig->args_nbytes - arg->nbytes)
            return -EINVAL;
        if (!arg->is_pointer)
            continue;
        uint64_t covered;
        memcpy(&covered, extents, 8);
        extents += 8;
        int rc = check_pointer(sig, arg, bytes, covered, need);
        if (rc)
            return rc;
    }
    return 0;
}
