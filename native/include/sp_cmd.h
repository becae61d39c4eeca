/* Command records. q.launch writes one record, a command list is an array of records, and every
 * backend executes records.
 *
 * Records are contiguous, each 8-byte aligned and `nbytes` long. Python writes them with
 * struct.Struct formats (core/abi/records.py). tests/core/test_records.py compares those formats
 * with offsetof() of these structs. */
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
    uint32_t nbytes; /* bytes of header and payload, a multiple of 8 */
};

/* A dispatch. `args_nbytes` of arguments follow, packed with natural C alignment and padded to 8
 * bytes. Then follows one uint64_t per pointer argument: the bytes of the buffer from that pointer
 * to the buffer's end (UINT64_MAX: unknown). */
struct sp_cmd_dispatch {
    uint32_t kind;
    uint32_t nbytes;
    uint64_t kernel; /* kernel handle of the backend */
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
    uint64_t count; /* in bytes */
};

struct sp_cmd_fill {
    uint32_t kind;
    uint32_t nbytes;
    uint64_t dst;
    uint64_t count; /* in bytes, a multiple of pattern_nbytes */
    uint32_t pattern;
    uint32_t pattern_nbytes; /* 1, 2 or 4 */
};

/* A barrier: later commands see all writes of earlier commands. Only lists whose commands may
 * overlap need it. */
struct sp_cmd_barrier {
    uint32_t kind;
    uint32_t nbytes;
};

/* A wait until another queue of the same device reaches `value`. */
struct sp_cmd_wait {
    uint32_t kind;
    uint32_t nbytes;
    uint64_t queue;
    uint64_t value;
};

/* A command that stores the device clock, in ns, to the uint64_t at address `slot`. */
struct sp_cmd_timestamp {
    uint32_t kind;
    uint32_t nbytes;
    uint64_t slot;
};

/* Progress of a submission that has not ended. */
struct sp_progress {
    /* offset, among the submission's records, of the record that runs now; if no record has begun,
     * the size of all records */
    uint64_t running_at;
    uint64_t groups_done; /* number of finished groups of the record that runs */
    /* number of all groups of the record that runs; 0: unknown, or no dispatch */
    uint64_t groups_total;
    uint64_t running_ns; /* ns since the record that runs began */
};

enum sp_limits { SP_MAX_ARGS = 48, SP_MAX_STEPS = 512 };

/* Extents. The extent of a pointer argument ("n", "m*k", "span(m,rs,k,cs)") is the number of
 * elements that the pointer must cover. Extents and a kernel's number of workgroups follow from the
 * scalar arguments. core/abi/extent.py compiles such texts into steps that change one value;
 * native/core/extents.h runs the steps. */
enum sp_extent_op {
    /* saves the current value of the computation, if any, for a later SP_EXTENT_POPPED, then sets
     * it to the operand */
    SP_EXTENT_PUSH = 1,
    /* saves the current value of the computation, then sets it to a span: 0 if n1 or n2 is 0, else
     * (n1-1)*s1 + (n2-1)*s2 + 1. The operands n1, s1, n2, s2 are those of this step and the next
     * three. */
    SP_EXTENT_SPAN = 2,
    SP_EXTENT_ADD = 3,
    SP_EXTENT_SUB = 4, /* subtracts, but not below 0 */
    SP_EXTENT_MUL = 5,
    SP_EXTENT_DIV = 6, /* rounds up; a division by 0 is -EINVAL */
    /* added to SP_EXTENT_ADD, SUB, MUL or DIV: the step combines the value saved last with the
     * current value, as in saved - current; it has no operand of its own */
    SP_EXTENT_POPPED = 8
};

/* A step that computes an extent. Its operand is the eight bytes at `offset` of the packed
 * arguments, masked by `mask`. With a mask of 0 the operand is `constant`. */
struct sp_extent_step {
    uint32_t op;
    uint32_t offset;
    uint64_t mask;
    uint64_t constant;
};

struct sp_arg {
    uint32_t nbytes; /* size of the argument in the packed arguments: 4 or 8 bytes */
    uint32_t offset; /* offset of the argument in the packed arguments */
    uint32_t is_pointer;
    uint32_t is_optional; /* a pointer that may be null */
    /* 1: the kernel writes through this pointer, so read-only memory is refused */
    uint32_t is_written;
    /* bits of the element types that a pointer accepts (core/abi/elements.py) */
    uint32_t elements;
    uint32_t code; /* type of a scalar argument, as a format letter of Python's struct module */
};

/* A pointer argument and its extent. */
struct sp_pointer {
    uint32_t arg;    /* index of the argument */
    uint32_t offset; /* offset of the pointer in the packed arguments */
    uint32_t element_nbytes;
    uint32_t nsteps; /* number of steps of its extent; 0: the extent is unknown */
};

struct sp_signature {
    uint32_t nargs;
    uint32_t npointers;
    uint32_t args_nbytes; /* bytes of the packed arguments, padded to 8 */
    uint32_t nsteps;
    struct sp_arg args[48];
    /* the pointers among the arguments, in the order of the arguments */
    struct sp_pointer pointers[48];
    /* the first pointer's steps, then the next pointer's, and so on */
    struct sp_extent_step steps[512];
};

/* Computes the bytes that pointer number `index` must cover. Returns 0, -EOVERFLOW beyond 64 bits,
 * or -EINVAL for a division by 0. */
int sp_signature_need(const struct sp_signature *sig, uint32_t index, const void *args, uint64_t *need);

/* Checks packed arguments against their signature before anything is submitted. Returns 0; -EFAULT
 * for a null pointer that is not optional and whose extent is not 0; -ERANGE for a buffer shorter
 * than its extent; or an error of sp_signature_need. Writes the index of the wrong argument to
 * `bad` (may be NULL), and the bytes it must cover to `need`. */
int sp_signature_check(const struct sp_signature *sig, const void *args, uint32_t *bad, uint64_t *need);

/* Checks that records are well formed: kinds, sizes, alignment of the array and of each record,
 * bounds of payloads. Returns 0 or -EINVAL. Writes the offset of the malformed record to `at`. */
int sp_cmd_validate(const void *records, size_t nbytes, size_t *at);
#endif
