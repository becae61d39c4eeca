/* A signature's pointers, resolved when its kernel is loaded: most argument blocks are seen to be covered in some ten
 * instructions a pointer. What cannot be told that way is for sp_signature_check. */
#ifndef SP_EXTENTS_H
#define SP_EXTENTS_H
#include "sp_cmd.h"

enum { SP_MOST_RESOLVED = 8 };

/* The 32 bits at `offset` of the arguments, of which `mask` lets all or none through, or `constant`. */
struct sp_operand {
    uint32_t offset, mask, constant;
};

/* (n1 - 1) * s1 + (n2 - 1) * s2 + 1 elements of 1 << shift bytes, where neither n1 nor n2 is 0. */
struct sp_resolved {
    uint32_t offset; /* of the address */
    uint32_t is_optional;
    uint32_t is_bounded; /* 0: nothing is known of what it must cover */
    uint32_t shift;
    struct sp_operand n1, s1, n2, s2;
};

struct sp_extents {
    uint32_t npointers;
    uint32_t args_nbytes;
    struct sp_resolved pointers[SP_MOST_RESOLVED];
};

/* 0 when the signature has a pointer of another form, too many, or does not hold together: nothing is covered then. */
int sp_extents_resolve(struct sp_extents *e, const struct sp_signature *sig);
/* 1: sp_signature_check would return 0. 0: ask it. */
int sp_extents_cover(const struct sp_extents *e, const void *args);
#endif
