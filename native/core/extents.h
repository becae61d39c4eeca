/* Computes extents, and checks that each pointer of packed arguments covers its extent.
 *
 * The functions are inline, because two extension modules use them. Backends check every record
 * with them: this is the last check before a kernel dereferences a pointer.
 * native/hot/launch/pack.c computes grids with them, and finds which argument is wrong. */
#ifndef SP_CORE_EXTENTS_H
#define SP_CORE_EXTENTS_H
#include "include/sp_cmd.h"

#include <errno.h>
#include <string.h>

#define SP_INLINE __attribute__((always_inline)) static inline

/* Returns the value of one operand. The function always reads eight bytes, even of a 4-byte
 * argument. The eight bytes exist, because more data follows the arguments: the sizes of the memory
 * that each pointer may access. */
SP_INLINE uint64_t sp_extent_operand(const struct sp_extent_step *o, const void *args)
{
    uint64_t value;
    memcpy(&value, (const char *)args + o->offset, 8);
    return (value & o->mask) | o->constant;
}

/* Returns the value that an SP_EXTENT_PUSH or SP_EXTENT_SPAN step starts with. Sets `*beyond` if
 * the value exceeds 64 bits. */
SP_INLINE uint64_t sp_extent_begin(const struct sp_extent_step *step, const void *args, int *beyond)
{
    const uint64_t n1 = sp_extent_operand(step, args);
    if (step->op == SP_EXTENT_PUSH)
        return n1;
    const uint64_t s1 = sp_extent_operand(step + 1, args), n2 = sp_extent_operand(step + 2, args);
    const uint64_t s2 = sp_extent_operand(step + 3, args);
    uint64_t one, two;
    if (n1 == 0 || n2 == 0)
        return 0;
    if (__builtin_mul_overflow(n1 - 1, s1, &one) || __builtin_add_overflow(one, 1, &one))
        *beyond = 1;
    if (__builtin_mul_overflow(n2 - 1, s2, &two) || __builtin_add_overflow(one, two, &one))
        *beyond = 1;
    return one;
}

/* Computes an extent from its `count` steps, at least one. Returns 0, -EOVERFLOW, or -EINVAL for a
 * division by 0. */
SP_INLINE int sp_extent_value(const struct sp_extent_step *steps, uint32_t count, const void *args, uint64_t *out)
{
    const struct sp_extent_step *const end = steps + count;
    uint64_t kept[SP_MAX_STEPS], *top = kept, value = 0;
    int beyond = 0;
    for (const struct sp_extent_step *step = steps; step != end; step++) {
        uint32_t op = step->op;
        uint64_t by;
        if (op <= SP_EXTENT_SPAN) {
            if (step != steps)
                *top++ = value;
            value = sp_extent_begin(step, args, &beyond);
            step += op == SP_EXTENT_SPAN ? 3 : 0;
            continue;
        }
        if (op & SP_EXTENT_POPPED) {
            op -= SP_EXTENT_POPPED;
            by = value;
            value = *--top;
        } else {
            by = sp_extent_operand(step, args);
        }
        if (op == SP_EXTENT_MUL) {
            if (__builtin_mul_overflow(value, by, &value))
                beyond = 1;
        } else if (op == SP_EXTENT_ADD) {
            if (__builtin_add_overflow(value, by, &value))
                beyond = 1;
        } else if (op == SP_EXTENT_SUB) {
            value = value > by ? value - by : 0;
        } else {
            if (by == 0)
                return -EINVAL;
            value = value / by + (value % by != 0);
        }
    }
    *out = value;
    return beyond ? -EOVERFLOW : 0;
}

/* Computes the bytes that one pointer needs, from the steps of its extent (struct sp_extent_step).
 * Returns what sp_signature_need returns. */
SP_INLINE int sp_extent_need(const struct sp_pointer *p, const struct sp_extent_step *steps, const void *args, uint64_t *need)
{
    *need = 0;
    const int rc = p->nsteps ? sp_extent_value(steps, p->nsteps, args, need) : 0;
    return rc ? rc : __builtin_mul_overflow(*need, (uint64_t)p->element_nbytes, need) ? -EOVERFLOW : 0;
}

/* Does what sp_signature_check does. `need` receives the bytes that the failing pointer needs. */
SP_INLINE int sp_extents_check(const struct sp_signature *sig, const void *args, uint32_t *bad, uint64_t *need)
{
    const char *const bytes = args, *covers = bytes + sig->args_nbytes;
    const struct sp_pointer *const end = sig->pointers + sig->npointers;
    const struct sp_extent_step *steps = sig->steps;
    for (const struct sp_pointer *p = sig->pointers; p != end; steps += p->nsteps, p++, covers += 8) {
        uint64_t address, covered, needed;
        memcpy(&address, bytes + p->offset, 8);
        memcpy(&covered, covers, 8);
        if (address == 0 && sig->args[p->arg].is_optional)
            continue;
        int rc = sp_extent_need(p, steps, args, &needed);
        if (rc == 0 && needed > covered)
            rc = -ERANGE; /* fault: extent */
        /* An empty buffer may have a null address: a kernel with extent 0 never reads it. */
        if (rc == 0 && address == 0 && (needed || !p->nsteps))
            rc = -EFAULT;
        if (rc) {
            *bad = p->arg;
            *need = needed;
            return rc;
        }
    }
    return 0;
}
#endif
