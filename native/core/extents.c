/* Extents of the usual forms, in 32-bit arguments and constants: "n", "n*c*h*w", "m*(k/groups)", "span(m, rs, k, cs)". */
#include "include/sp_extents.h"

#include <string.h>

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

/* Where each product on a postfix program's stack begins in the list of factors. */
struct factors {
    uint32_t depth;
    uint32_t begins[SP_MOST_FACTORS + 1];
};

/* One step. 0: of another form. */
static int take(struct sp_resolved *r, struct factors *f, const struct sp_signature *sig, const struct sp_extent_step *step)
{
    const uint32_t top = f->depth ? f->begins[f->depth - 1] : 0;
    switch (step->op) {
    case SP_EXTENT_ARG:
    case SP_EXTENT_CONST:
        if (r->count == SP_MOST_FACTORS)
            return 0;
        f->begins[f->depth++] = r->count;
        return resolve_operand(sig, step, &r->of[r->count++]);
    case SP_EXTENT_MUL:
        if (f->depth < 2)
            return 0;
        f->depth--;
        return 1;
    case SP_EXTENT_DIV: /* of one factor by one */
        if (f->depth < 2 || top - f->begins[f->depth - 2] != 1 || r->count - top != 1 || r->divided != SP_MOST_FACTORS)
            return 0;
        f->depth--;
        r->divided = top - 1;
        r->divisor = r->of[--r->count];
        return 1;
    default:
        return 0;
    }
}

static int resolve_extent(const struct sp_signature *sig, const struct sp_arg *arg, struct sp_resolved *r)
{
    const uint32_t count = arg->program_count;
    if (arg->program_at > SP_MAX_EXTENT_OPS || count > SP_MAX_EXTENT_OPS - arg->program_at)
        return 0;
    if (arg->element_nbytes == 0 || (arg->element_nbytes & (arg->element_nbytes - 1)))
        return 0;
    const struct sp_extent_step *const steps = &sig->program[arg->program_at];
    const int is_span = count == 5 && steps[4].op == SP_EXTENT_SPAN;
    struct factors factors = {0};
    r->shift = (uint32_t)__builtin_ctz(arg->element_nbytes);
    r->form = is_span ? SP_SPAN : SP_PRODUCT;
    r->divided = SP_MOST_FACTORS;
    for (uint32_t i = 0; i < count - (uint32_t)is_span; i++)
        if (!take(r, &factors, sig, &steps[i]))
            return 0;
    return factors.depth == (is_span ? 4 : 1);
}

static int resolve(struct sp_extents *e, const struct sp_signature *sig)
{
    if (sig->nargs > SP_MAX_ARGS || sig->args_nbytes < 8)
        return 0;
    for (uint32_t i = 0; i < sig->nargs; i++) {
        const struct sp_arg *const arg = &sig->args[i];
        const uint32_t least = arg->is_pointer ? 8 : 4; /* what is read */
        if (arg->nbytes < least || arg->nbytes > sig->args_nbytes || arg->offset > sig->args_nbytes - arg->nbytes)
            return 0;
        if (!arg->is_pointer)
            continue;
        if (e->npointers == SP_MOST_RESOLVED)
            return 0;
        struct sp_resolved *const r = &e->pointers[e->npointers++];
        *r = (struct sp_resolved){.offset = arg->offset, .is_optional = arg->is_optional};
        if (arg->program_count && !resolve_extent(sig, arg, r))
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

/* Is the span of at most so many elements? Products of 32 bits each, and one less than all: no more to overflow than a sum. */
static inline int span_fits(const struct sp_resolved *r, const unsigned char *args, uint64_t most)
{
    const uint64_t n1 = value(&r->of[0], args), s1 = value(&r->of[1], args);
    const uint64_t n2 = value(&r->of[2], args), s2 = value(&r->of[3], args);
    uint64_t last;
    return n1 == 0 || n2 == 0 || (!__builtin_add_overflow((n1 - 1) * s1, (n2 - 1) * s2, &last) && last < most);
}

/* Factors of 0 are for sp_signature_check: whether a product overflows before it comes to one hangs on the order. */
static inline int product_fits(const struct sp_resolved *r, const unsigned char *args, uint64_t most)
{
    uint64_t all = 1;
    for (uint32_t i = 0; i < r->count; i++) {
        uint64_t factor = value(&r->of[i], args);
        if (i == r->divided) {
            const uint64_t divisor = value(&r->divisor, args);
            if (divisor == 0)
                return 0;
            factor = (uint32_t)factor / (uint32_t)divisor + ((uint32_t)factor % (uint32_t)divisor != 0);
        }
        if (factor == 0 || __builtin_mul_overflow(all, factor, &all))
            return 0;
    }
    return all <= most;
}

int sp_extents_cover(const struct sp_extents *e, const void *args)
{
    const unsigned char *const bytes = args, *const covered = bytes + e->args_nbytes;
    if (!e->args_nbytes)
        return 0;
    for (uint32_t i = 0; i < e->npointers; i++) {
        const struct sp_resolved *const r = &e->pointers[i];
        uint64_t address, nbytes;
        memcpy(&address, bytes + r->offset, 8);
        memcpy(&nbytes, covered + 8 * (size_t)i, 8);
        if (address == 0) {
            if (!r->is_optional)
                return 0;
            continue;
        }
        const uint64_t most = nbytes >> r->shift;
        if (r->form == SP_SPAN ? !span_fits(r, bytes, most) : r->form == SP_PRODUCT && !product_fits(r, bytes, most))
            return 0;
    }
    return 1;
}
