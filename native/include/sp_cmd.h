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

enum sp_limits { SP_MAX_ARGS = 48, SP_MAX_EXTENT_OPS = 512, SP_EXTENT_STACK = 16 };

/* How many elements a pointer argument must cover is a small postfix program over the scalar arguments
 * ("n", "m*k", "span(m,rs,k,cs)"), written in the manifest and compiled by core/abi/signature.py. */
enum sp_extent_op {
    SP_EXTENT_ARG = 1,   /* operand: argument index (an integer scalar) */
    SP_EXTENT_CONST = 2, /* operand: the value */
    SP_EXTENT_ADD = 3,
    SP_EXTENT_SUB = 4, /* saturates at 0 */
    SP_EXTENT_MUL = 5,
    SP_EXTENT_DIV = 6, /* rounds up; by 0 is -EINVAL */
    SP_EXTENT_SPAN = 7 /* pops n1 s1 n2 s2: 0 if n1 or n2 is 0, else (n1-1)*s1 + (n2-1)*s2 + 1 */
};

struct sp_arg {
    uint32_t nbytes;         /* size in the packed arguments: 4 or 8 */
    uint32_t offset;         /* in the packed arguments */
    uint32_t is_pointer;
    uint32_t is_optional;    /* a pointer that may be null */
    uint32_t element_nbytes; /* of what a pointer points to */
    uint32_t program_at;     /* first op of the extent program */
    uint32_t program_count;  /* 0: no extent known, nothing checked */
};

struct sp_extent_step {
    uint32_t op;
    uint32_t operand;
};

struct sp_signature {
    uint32_t nargs;
    uint32_t npointers;
    uint32_t args_nbytes; /* padded to 8 */
    uint32_t checked;     /* 1: at least one pointer has an extent program or may not be null */
    struct sp_arg args[48];
    struct sp_extent_step program[512];
};

/* Checks a packed argument block against its signature before anything is submitted. 0; -EFAULT a null pointer that is
 * not optional, -ERANGE a buffer shorter than its extent, -EOVERFLOW an extent beyond 64 bits, -EINVAL a broken
 * signature; `bad` (may be NULL) receives the index of the argument and `need` the bytes it must cover. */
int sp_signature_check(const struct sp_signature *sig, const void *args, uint32_t *bad, uint64_t *need);

/* Checks that records are well formed: kinds, sizes, alignment (their own and that of each), payload bounds. `at` receives the
 * offending offset. */
int sp_cmd_validate(const void *records, size_t nbytes, size_t *at);
#endif
