/* The registers of one dispatch, and their meaning for the waves. */
#ifndef SP_EMU_CP_LAUNCH_H
#define SP_EMU_CP_LAUNCH_H
#include "engine.h"

#include "emu/run/dispatch.h"

struct sp_cp_launch {
    /* Dimensions in the DISPATCH packet. In dimension i, the groups have the ids start[i] to
     * groups[i] - 1. If `initiator` has USE_THREAD_DIMENSIONS, groups[i] counts threads until
     * sp_cp_launch_decode converts it. */
    uint32_t groups[3];
    uint32_t start[3];
    /* NUM_THREAD_FULL of the registers COMPUTE_NUM_THREAD_X to _Z: threads of a group */
    uint32_t group_size[3];
    /* NUM_THREAD_PARTIAL of the registers COMPUTE_NUM_THREAD_X to _Z: threads of the last group in
     * each dimension. Used only if `initiator` has the bit PARTIAL_TG_EN. */
    uint32_t partial_size[3];
    uint32_t initiator;       /* COMPUTE_DISPATCH_INITIATOR */
    uint32_t rsrc1, rsrc2, rsrc3;
    uint32_t tmpring_size;
};

/* Decodes `l` into `d`. Returns 0, or -EFAULT with the fault filled if `l` cannot be launched. */
int sp_cp_launch_decode(struct sp_cp *cp, struct sp_cp_launch *l, struct sp_emu_dispatch *d);
#endif
