/* Dispatches, as the command processor passes them to the waves. */
#ifndef SP_EMU_RUN_DISPATCH_H
#define SP_EMU_RUN_DISPATCH_H
#include "emu/exec/exec.h"

/* One compute dispatch that the command processor has decoded and checked; dispatch.c runs it. */
struct sp_emu_dispatch {
    /* in each dimension: id of the first group, and id of the last group + 1; there is at least one
     * group */
    uint32_t begin[3], end[3];
    /* `size`: in each dimension, the threads of a group (1 to 1024 in the whole group). `last`: in
     * each dimension, the threads of its last group, which may be smaller. */
    uint32_t size[3], last[3];
    uint64_t code;             /* address of the first instruction, canonical */
    uint32_t lanes;            /* lanes of a wave: 32 or 64 */
    uint32_t vgprs;            /* VGPRs per lane, at most 256 */
    uint32_t lds_bytes;        /* LDS per group, at most 64 KiB */
    uint32_t wgp_mode;         /* 1: the waves of a group may be on both CUs of a WGP */
    uint32_t mode;             /* initial value of the MODE register */
    uint32_t thread_ids;       /* number of thread ids in VGPRs: 1 to 3 */
    uint32_t group_ids;        /* a bit for each dimension whose group id is in an SGPR */
    uint32_t tg_size;          /* 1: an SGPR has the wave's place in its group */
    uint32_t scratch;          /* 1: on gfx10 an SGPR has the offset of the wave's scratch */
    uint64_t scratch_wave;     /* bytes of scratch per wave; 0: no scratch */
    /* number of waves for which the scratch ring has room: at least the waves of one group */
    uint32_t scratch_slots;
    uint64_t scratch_base;     /* address of the scratch ring on gfx11, canonical */
    uint32_t user_sgprs;       /* number of user SGPRs, at most 16 */
    uint32_t user_data[16];
    /* bit i: 1 if this job has programmed user_data[i], 0 if user_data[i] holds an old value */
    uint32_t user_data_set;
};

/* Runs every group to its end. Returns 0, or a negative error. -EFAULT: x->fault has the reason.
 * -ETIME: the deadline has passed. -ECANCELED: *x->cancel became nonzero. */
int sp_emu_dispatch(const struct sp_emu_dispatch *d, struct sp_emu_exec *x);
#endif
