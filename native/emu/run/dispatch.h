/* Dispatches, as the command processor passes them to the waves. */
#ifndef SP_EMU_RUN_DISPATCH_H
#define SP_EMU_RUN_DISPATCH_H
#include "emu/exec.h"

/* One compute dispatch that the command processor has decoded and checked; dispatch.c runs it. */
struct sp_emu_dispatch {
    uint32_t begin[3], end[3]; /* groups; at least one in each dimension */
    uint32_t size[3], last[3]; /* threads of a group, 1 to 1024 in all; of the last group in each dimension */
    uint64_t code;             /* address of the first instruction, canonical */
    uint32_t lanes;            /* of a wave: 32 or 64 */
    uint32_t vgprs;            /* per lane, at most 256 */
    uint32_t lds_bytes;        /* per group, at most 64 KiB */
    uint32_t wgp_mode;         /* 1: its waves may be on both CUs of a WGP */
    uint32_t mode;             /* initial value of the MODE register */
    uint32_t thread_ids;       /* number of dimensions in VGPRs: 1 to 3 */
    uint32_t group_ids;        /* dimensions in SGPRs: a bit each */
    uint32_t tg_size;          /* 1: an SGPR has a wave's place in its group */
    uint32_t scratch;          /* 1: gfx10 passes the wave's offset in an SGPR */
    uint64_t scratch_wave;     /* bytes per wave; 0: none */
    uint32_t scratch_slots;    /* number of waves with room, at least a group's */
    uint64_t scratch_base;     /* gfx11; canonical */
    uint32_t user_sgprs;       /* at most 16 */
    uint32_t user_data[16];
    uint32_t user_data_set; /* bit i: this job has programmed user_data[i]; the others hold old values */
};

/* Runs every group to its end. 0; -EFAULT (x->fault has the reason); -ETIME (deadline);
 * -ECANCELED. */
int sp_emu_dispatch(const struct sp_emu_dispatch *d, struct sp_emu_exec *x);
#endif
