/* The command record: what q.launch writes one of, what Commands is an array of, what every backend replays.
 *
 * Records are contiguous, each 8-byte aligned and `nbytes` long. Python writes them with struct.Struct formats
 * (core/abi/records.py); tests/core/test_records.py compares those formats with offsetof() of these structs. */
#ifndef SP_CMD_H
#define SP_CMD_H
#include "sp_base.h"

enum sp_cmd_kind {
    SP_CMD_DISPATCH = 1,
    SP_CMD_COPY = 2,
    SP_CMD_FILL = 3,
    SP_CMD_BARRIER = 4,
    SP_CMD_WAIT = 5,
    SP_CMD_TIMESTAMP = 6
};

struct sp_cmd {
    uint32_t kind;
    uint32_t nbytes; /* header and payload, a multiple of 8 */
};

/* Followed by `args_nbytes` of arguments packed with natural C alignment and padded to 8, then by one uint64_t per
 * pointer argument: how many bytes are valid from that pointer on (UINT64_MAX: unknown). */
struct sp_cmd_dispatch {
    uint32_t kind;
    uint32_t nbytes;
    uint64_t kernel; /* the backend's kernel handle */
    uint32_t groups[3];
    uint32_t group_size[3];
    uint32_t shared_nbytes;
    uint32_t args_nbytes;
};

struct sp_cmd_copy {
    uint32_t kind;
    uint32_t nbytes;
    uint64_t dst;
    uint64_t src;
    uint64_t count; /* bytes */
};

struct sp_cmd_fill {
    uint32_t kind;
    uint32_t nbytes;
    uint64_t dst;
    uint64_t count;          /* bytes, a multiple of pattern_nbytes */
    uint32_t pattern;
    uint32_t pattern_nbytes; /* 1, 2 or 4 */
};

/* Orders what follows after everything before it; lists are ordered already unless they were made with overlap. */
struct sp_cmd_barrier {
    uint32_t kind;
    uint32_t nbytes;
};

/* Waits for another queue of the same device to reach `value`. */
struct sp_cmd_wait {
    uint32_t kind;
    uint32_t nbytes;
    uint64_t queue;
    uint64_t value;
};

/* Stores the device clock, in ns, to the uint64_t at `slot`. */
struct sp_cmd_timestamp {
    uint32_t kind;
    uint32_t nbytes;
    uint64_t slot;
};

/* Where a submission that has not ended stands. */
struct sp_progress {
    uint64_t running_at;   /* offset of the record that runs; the size of them all: none does yet */
    uint64_t groups_done;  /* of that record */
    uint64_t groups_total; /* 0: unknown, or no dispatch */
    uint64_t running_ns;   /* since it began */
};

enum sp_limits { SP_MAX_ARGS = 48, SP_MAX_STEPS = 512 };

/* How many elements a pointer argument must cover ("n", "m*k", "span(m,rs,k,cs)"), and how many workgroups a kernel needs,
 * follows from the scalar arguments. core/abi/extent.py compiles such texts into steps over one value; native/core/extents.h
 * computes them. */
enum sp_extent_op {
    SP_EXTENT_PUSH = 1, /* keeps the value for a later SP_EXTENT_POPPED, and begins with the operand */
    SP_EXTENT_SPAN = 2, /* the same, but begins with the span of n1 s1 n2 s2, the operands of four steps: 0 if n1 or n2 is 0, else
                         * (n1-1)*s1 + (n2-1)*s2 + 1 */
    SP_EXTENT_ADD = 3,
    SP_EXTENT_SUB = 4, /* saturates at 0 */
    SP_EXTENT_MUL = 5,
    SP_EXTENT_DIV = 6, /* rounds up; by 0 is -EINVAL */
    SP_EXTENT_POPPED = 8 /* added to the last four: the value is the operand of what was kept last */
};

/* Its operand: those bits of the eight bytes at `offset` of the packed arguments that are in `mask`; or a constant, whose mask
 * is 0. */
struct sp_extent_step {
    uint32_t op;
    uint32_t offset;
    uint64_t mask;
    uint64_t constant;
};

struct sp_arg {
    uint32_t nbytes; /* size in the packed arguments: 4 or 8 */
    uint32_t offset; /* in the packed arguments */
    uint32_t is_pointer;
    uint32_t is_optional; /* a pointer that may be null */
    uint32_t is_written;  /* a pointer that read-only memory is refused for */
    uint32_t elements;    /* those that a pointer takes, as bits: core/abi/elements.py */
    uint32_t code;        /* of a scalar: the letter of Python's struct */
};

/* A pointer argument, and what it must cover. */
struct sp_pointer {
    uint32_t arg;    /* its index */
    uint32_t offset; /* in the packed arguments */
    uint32_t element_nbytes;
    uint32_t nsteps; /* of its extent; 0: nothing is known */
};

struct sp_signature {
    uint32_t nargs;
    uint32_t npointers;
    uint32_t args_nbytes; /* padded to 8 */
    uint32_t nsteps;
    struct sp_arg args[48];
    struct sp_pointer pointers[48]; /* in the order of their arguments */
    struct sp_extent_step steps[512]; /* of the first pointer, then of the next */
};

/* Bytes that the `index`th pointer must cover: 0; -EOVERFLOW: beyond 64 bits; -EINVAL: a division by 0. */
int sp_signature_need(const struct sp_signature *sig, uint32_t index, const void *args, uint64_t *need);

/* Checks a packed argument block against its signature before anything is submitted. 0; -EFAULT a null pointer that is
 * not optional, -ERANGE a buffer shorter than its extent, or as sp_signature_need. `bad` (may be NULL) receives the index of
 * the argument and `need` the bytes it must cover. */
int sp_signature_check(const struct sp_signature *sig, const void *args, uint32_t *bad, uint64_t *need);

/* Checks that records are well formed: kinds, sizes, alignment (their own and that of each), payload bounds. `at` receives the
 * offending offset. */
int sp_cmd_validate(const void *records, size_t nbytes, size_t *at);
#endif
