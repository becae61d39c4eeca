/* What packs the launches of one kernel (native/hot/launch/pack.c), and why it refuses one. */
#ifndef SP_PACK_H
#define SP_PACK_H
#include "sp_cmd.h"

/* Made when a kernel is loaded. */
struct sp_packing {
    struct sp_cmd_dispatch head; /* of one group of the kernel's own size */
    uint32_t dims;               /* axes beyond these are 1 */
    uint32_t is_routine;
    uint32_t most_groups[3];
    uint32_t ngrid; /* 0: the kernel does not know its grid */
    uint32_t nsteps[3]; /* of each axis of the grid, behind those of the signature */
    uint64_t most_threads; /* of a group */
    uint64_t most_shared;
    struct sp_signature sig;
};

/* Each is about the argument, the axis or the word (groups, group_size, shared) of an index. core/launch_errors.py says it. */
enum sp_refusal {
    SP_REFUSED_KERNEL = 1, /* it is none */
    SP_REFUSED_KERNEL_CLOSED,
    SP_REFUSED_KERNEL_ELSEWHERE,
    SP_REFUSED_COUNT, /* of arguments */
    SP_REFUSED_NUMBER, /* an argument is none */
    SP_REFUSED_RANGE,
    SP_REFUSED_POINTER, /* an argument is none */
    SP_REFUSED_CLOSED,
    SP_REFUSED_ELSEWHERE,
    SP_REFUSED_ELEMENTS,
    SP_REFUSED_READONLY,
    SP_REFUSED_WORD, /* not the numbers that it takes */
    SP_REFUSED_AXES, /* none, or more than three */
    SP_REFUSED_NO_GROUPS,
    SP_REFUSED_OWN_SIZE, /* the grid that the kernel knows is of groups of another size */
    SP_REFUSED_GROUPS,
    SP_REFUSED_GROUP_SIZE,
    SP_REFUSED_THREADS,
    SP_REFUSED_ROUTINE,
    SP_REFUSED_DIMS,
    SP_REFUSED_SHARED,
    SP_REFUSED_SHORT, /* a buffer, of the bytes that it must cover */
    SP_REFUSED_OVERFLOW,
    SP_REFUSED_SENSELESS
};
#endif
