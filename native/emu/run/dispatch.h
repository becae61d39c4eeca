/* Dispatches: what the command processor hands to the waves. */
#ifndef SP_EMU_RUN_DISPATCH_H
#define SP_EMU_RUN_DISPATCH_H
#include "emu/exec.h"

/* One compute dispatch, decoded and found launchable by the command processor; run by dispatch.c. */
struct sp_emu_dispatch {
    uint32_t begin[3], end[3]; /* groups; at least one in each dimension */
    uint32_t size[3], last[3]; /* threads of a group, 1 to 1024 in all; of the last group in each dimension */
    uint64_t code;             /* va of the first instruction, canonical */
    uint32_t lanes;            /* of a wave: 32 or 64 */
    uint32_t vgprs;            /* of a lane, 256 at most */
    uint32_t lds_bytes;        /* of a group, 64 KiB at most */
    uint32_t wgp_mode;         /* 1: its waves may be on both CUs of a WGP */
    uint32_t mode;             /* what the MODE register starts with */
    uint32_t thread_ids;       /* dimensions that come in VGPRs: 1 to 3 */
    uint32_t group_ids;        /* dimensions that come in SGPRs: a bit each */
    uint32_t tg_size;          /* 1: an SGPR with a wave's place in its group */
    uint32_t scratch;          /* 1: gfx10 hands over the wave's offset in an SGPR */
    uint64_t scratch_wave;     /* bytes of a wave; 0: none */
    uint32_t scratch_slots;    /* waves that have room, at least a group's */
    uint64_t scratch_base;     /* gfx11; canonical */
    uint32_t user_sgprs;       /* 16 at most */
    uint32_t user_data[16];
    uint32_t user_data_set; /* bit i: this job has programmed user_data[i]; the others hold what was there before */
};

/* Runs every group to its end. 0, -EFAULT (x->fault says why), -ETIME (deadline), -ECANCELED. */
int sp_emu_dispatch(const struct sp_emu_dispatch *d, struct sp_emu_exec *x);
#endif
