/* What executes one job: handed from the emulated kernel's job thread to command processor, SDMA and waves. */
#ifndef SP_EMU_EXEC_H
#define SP_EMU_EXEC_H
#include "vm.h"

/* Facts of a chip that packets and waves depend on; the rest (INFO) is the kernel room's. */
struct sp_emu_chip {
    const char *name;    /* "gfx1100" */
    uint32_t generation; /* 10: gfx10.3, RDNA2; 11: gfx11, RDNA3 */
    uint32_t num_se;     /* shader engines */
    uint32_t num_cu;
    uint32_t counter_khz; /* of the GPU clock */
    struct sp_emu_flaw_of {
        uint32_t planted;
        uint64_t a, b;
    } flaw[SP_FLAWS];
};

/* The flaw, or NULL where the card is well in that. */
static inline const struct sp_emu_flaw_of *sp_emu_flaw(const struct sp_emu_chip *chip, enum sp_emu_flaw which)
{
    return chip->flaw[which].planted ? &chip->flaw[which] : NULL;
}

struct sp_emu_exec {
    const struct sp_emu_chip *chip;
    struct sp_emu_tlb tlb;
    struct sp_emu_fault fault;
    uint32_t lenient;      /* of sp_emu_lenient; 0: strict */
    uint32_t threads;      /* waves' groups are spread over as many; 1: deterministic */
    uint64_t deadline_ns;  /* CLOCK_MONOTONIC; 0: none. Looked at every few thousand instructions */
    const uint32_t *cancel; /* read atomically: not 0 means stop now with -ECANCELED */
    uint64_t lane_ops;     /* instructions x active lanes, counted for benchmarks/emu.py */
    void (*trace)(void *self, const char *line); /* NULL: off */
    void *trace_self;
};

/* One compute dispatch, decoded and found launchable by the command processor; run by native/emu/wave. */
struct sp_emu_dispatch {
    uint32_t begin[3], end[3]; /* groups; at least one in each dimension */
    uint32_t size[3], last[3]; /* threads of a group, 1 to 1024 in all; of the last group in each dimension */
    uint64_t code;             /* va of the first instruction, canonical */
    uint32_t lanes;            /* of a wave: 32 or 64 */
    uint32_t vgprs;            /* of a lane, 256 at most */
    uint32_t lds_bytes;        /* of a group, 64 KiB at most */
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
