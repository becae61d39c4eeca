/* Data for packing the launches of one kernel (native/hot/launch/pack.c), and the reasons to refuse
 * a launch. */
#ifndef SP_PACK_H
#define SP_PACK_H
#include "sp_cmd.h"

/* What hot/launch/pack.c must know of a kernel to pack its launches. Made when the kernel is
 * loaded. */
struct sp_packing {
    /* dispatch record of a launch with one group of the kernel's own group size */
    struct sp_cmd_dispatch head;
    /* number of axes that the kernel's grid has; the other axes have size 1 */
    uint32_t dims;
    uint32_t is_routine;
    uint32_t most_groups[3];
    /* number of grid axes whose sizes follow from the kernel's arguments; 0: the caller gives the
     * grid */
    uint32_t ngrid;
    /* number of extent steps of each grid axis; sig.steps has these steps after those of the
     * pointers */
    uint32_t nsteps[3];
    uint64_t most_threads;
    uint64_t most_shared;
    struct sp_signature sig;
};

/* Reasons to refuse a launch. If a reason is about one argument, axis of the grid or option of the
 * launch, its index comes with the reason. The options are 0 groups, 1 group_size, 2 shared.
 * core/launch_errors.py makes the message. */
enum sp_refusal {
    SP_REFUSED_KERNEL = 1,
    SP_REFUSED_KERNEL_CLOSED,
    SP_REFUSED_KERNEL_ELSEWHERE,
    SP_REFUSED_COUNT, /* the launch has too many or too few arguments */
    SP_REFUSED_NUMBER, /* an argument is not a number */
    SP_REFUSED_RANGE,
    SP_REFUSED_POINTER, /* an argument is not a pointer */
    SP_REFUSED_CLOSED,
    SP_REFUSED_ELSEWHERE,
    SP_REFUSED_ELEMENTS,
    SP_REFUSED_READONLY,
    /* the option groups or group_size is neither an int nor a tuple of ints, or shared is not an
     * int */
    SP_REFUSED_WORD,
    SP_REFUSED_AXES, /* groups or group_size is a tuple of no items, or of more than three */
    SP_REFUSED_NO_GROUPS,
    /* group_size is given without groups, and is not the kernel's own; the grid follows from the
     * arguments only for the kernel's own group size */
    SP_REFUSED_OWN_SIZE,
    SP_REFUSED_GROUPS,
    SP_REFUSED_GROUP_SIZE,
    SP_REFUSED_THREADS,
    SP_REFUSED_ROUTINE,
    SP_REFUSED_DIMS,
    SP_REFUSED_SHARED,
    SP_REFUSED_SHORT, /* a buffer is shorter than its extent */
    SP_REFUSED_OVERFLOW,
    SP_REFUSED_SENSELESS
};
#endif
