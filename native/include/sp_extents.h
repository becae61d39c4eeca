/* A signature's pointers, resolved when its kernel is loaded: of most argument blocks it takes a few instructions a pointer to
 * see that they are covered. What cannot be told that way is for sp_signature_check. */
#ifndef SP_EXTENTS_H
#define SP_EXTENTS_H
#include "sp_cmd.h"

enum { SP_MOST_RESOLVED = 8, SP_MOST_FACTORS = 5 };

/* The 32 bits at `offset` of the arguments, of which `mask` lets all or none through, or `constant`. */
struct sp_operand {
    uint32_t offset, mask, constant;
};

enum sp_extent_form {
    SP_UNBOUNDED = 0, /* nothing is known */
    SP_PRODUCT = 1,   /* of `count` factors, one of which may be divided, rounding up */
    SP_SPAN = 2       /* sp_cmd.h's, of the four in its order */
};

struct sp_resolved {
    uint32_t offset; /* of the address */
    uint32_t is_optional;
    uint32_t shift; /* elements have 1 << shift bytes */
    uint32_t form;
    uint32_t count;
    uint32_t divided; /* a factor's index; SP_MOST_FACTORS: none is */
    struct sp_operand divisor;
    struct sp_operand of[5]; /* SP_MOST_FACTORS */
};

struct sp_extents {
    uint32_t npointers;
    uint32_t args_nbytes;
    struct sp_resolved pointers[8]; /* SP_MOST_RESOLVED */
};

/* 0 when the signature has a pointer of another form, too many, or does not hold together: nothing is covered then. */
int sp_extents_resolve(struct sp_extents *e, const struct sp_signature *sig);
/* 1: sp_signature_check would return 0. 0: ask it. */
int sp_extents_cover(const struct sp_extents *e, const void *args);
#endif
