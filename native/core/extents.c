/* Extents of the two usual forms, "n" and "span(n1, s1, n2, s2)" of 32-bit arguments and constants. */
#include "../include/sp_extents.h"

#include <string.h>

static const struct sp_operand zero, one = {.constant = 1};

/* 0: it is no scalar of 32 bits inside the arguments, and no constant of 32. */
static int resolve_operand(const struct sp_signature *sig, const struct sp_extent_step *step, struct sp_operand *out)
{
    if (step->op == SP_EXTENT_CONST) {
        *out = (struct sp_operand){.constant = step->operand};
        return 1;
    }
    if (step->op != SP_EXTENT_ARG || step->operand >= sig->nargs)
        return 0;
    const struct sp_arg *const arg = &sig->args[step->operand];
    *out = (struct sp_operand){.offset = arg->offset, .mask = UINT32_MAX};
    return arg->nbytes == 4 && !arg->is_pointer;
}

static int resolve_extent(const struct sp_signature *sig, const struct sp_arg *arg, struct sp_resolved *r)
{
    const uint32_t count = arg->program_count;
    if (arg->program_at > SP_MAX_EXTENT_OPS || count > SP_MAX_EXTENT_OPS - arg->program_at)
        return 0;
    const struct sp_extent_step *const steps = &sig->program[arg->program_at];
    if (arg->element_nbytes == 0 || (arg->element_nbytes & (arg->element_nbytes - 1)))
        return 0;
    r->shift = (uint32_t)__builtin_ctz(arg->element_nbytes);
    r->s1 = r->n2 = one;
    r->s2 = zero;
    if (count == 1)
        return resolve_operand(sig, steps, &r->n1);
    return count == 5 && steps[4].op == SP_EXTENT_SPAN && resolve_operand(sig, steps, &r->n1) &&
           resolve_operand(sig, steps + 1, &r->s1) && resolve_operand(sig, steps + 2, &r->n2) &&
           resolve_operand(sig, steps + 3, &r->s2);
}

static int resolve(struct sp_extents *e, const struct sp_signature *sig)
{
    if (sig->nargs > SP_MAX_ARGS || sig->args_nbytes < 8)
        return 0;
    for (uint32_t i = 0; i < sig->nargs; i++) {
        const struct sp_arg *const arg = &sig->args[i];
        const uint32_t nbytes = arg->is_pointer ? 8 : 4; /* what is read, whatever it says */
        if (arg->nbytes < nbytes || arg->nbytes > sig->args_nbytes || arg->offset > sig->args_nbytes - arg->nbytes)
            return 0;
        if (!arg->is_pointer)
            continue;
        if (e->npointers == SP_MOST_RESOLVED)
            return 0;
        struct sp_resolved *const r = &e->pointers[e->npointers++];
        *r = (struct sp_resolved){.offset = arg->offset, .is_optional = arg->is_optional, .is_bounded = arg->program_count != 0};
        if (r->is_bounded && !resolve_extent(sig, arg, r))
            return 0;
    }
    e->args_nbytes = sig->args_nbytes;
    return e->npointers == sig->npointers;
}

int sp_extents_resolve(struct sp_extents *e, const struct sp_signature *sig)
{
    *e = (struct sp_extents){0};
    if (!resolve(e, sig))
        e->args_nbytes = 0;
    return e->args_nbytes != 0;
}

static inline uint64_t value(const struct sp_operand *o, const unsigned char *args)
{
    uint32_t v;
    memcpy(&v, args + o->offset, 4);
    return (v & o->mask) | o->constant;
}

int sp_extents_cover(const struct sp_extents *e, const void *args)
{
    const unsigned char *const bytes = args, *const covered = bytes + e->args_nbytes;
    if (!e->args_nbytes)
        return 0;
    for (uint32_t i = 0; i < e->npointers; i++) {
        const struct sp_resolved *const r = &e->pointers[i];
        uint64_t address, nbytes, last;
        memcpy(&address, bytes + r->offset, 8);
        if (address == 0) {
            if (!r->is_optional)
                return 0;
            continue;
        }
        if (!r->is_bounded)
            continue;
        memcpy(&nbytes, covered + 8 * (size_t)i, 8);
        const uint64_t n1 = value(&r->n1, bytes), n2 = value(&r->n2, bytes);
        if (n1 == 0 || n2 == 0) /* nothing at all: one instruction more for each other launch */
            return 0;
        /* Products of 32 bits each; in whole elements, of which the last one has to be inside. */
        if (__builtin_add_overflow((n1 - 1) * value(&r->s1, bytes), (n2 - 1) * value(&r->s2, bytes), &last) ||
            last >= nbytes >> r->shift)
            return 0;
    }
    return 1;
}
