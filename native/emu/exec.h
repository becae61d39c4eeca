/* The state that executes one job. The emulated kernel's job thread passes it to command processor,
 * SDMA and waves. */
#ifndef SP_EMU_EXEC_H
#define SP_EMU_EXEC_H
#include "vm.h"

/* Facts of a chip for packets and waves; the others (INFO) are in kmd. */
struct sp_emu_chip {
    const char *name;    /* "gfx1100" */
    uint32_t generation; /* 10: gfx10.3, RDNA2; 11: gfx11, RDNA3 */
    uint32_t minor;      /* of gfx_version: 3 of gfx10.3; 5 of gfx11.5, RDNA3.5, with its additional instructions */
    uint32_t num_se;     /* shader engines */
    uint32_t num_cu;
    uint32_t counter_khz; /* of the GPU clock */
    struct sp_emu_flaw_of {
        uint32_t planted;
        uint64_t a, b;
    } flaw[SP_FLAWS];
};

/* The planted flaw, or NULL. */
static inline const struct sp_emu_flaw_of *sp_emu_flaw(const struct sp_emu_chip *chip, enum sp_emu_flaw which)
{
    return chip->flaw[which].planted ? &chip->flaw[which] : NULL;
}

/* The GPU clock now: CLOCK_MONOTONIC at chip->counter_khz, 40 ppm fast. */
uint64_t sp_emu_gpu_clock(const struct sp_emu_chip *chip);

struct sp_caches;
struct sp_late;
struct sp_races;
enum { SP_EXEC_THREADS = 64 }; /* most threads of one dispatch */
struct sp_emu_exec {
    const struct sp_emu_chip *chip;
    struct sp_emu_tlb tlb;
    struct sp_emu_fault fault;
    uint32_t lenient;      /* of sp_emu_lenient; 0: strict */
    /* that register: pipes and packers, which determine the swizzling of images */
    uint32_t gb_addr_config;
    uint32_t threads;      /* host threads for the groups; 1: deterministic */
    uint64_t deadline_ns;  /* CLOCK_MONOTONIC; 0: none. Checked every few thousand instructions */
    const uint32_t *cancel; /* read atomically: nonzero means stop now with -ECANCELED */
    uint64_t lane_ops;     /* instructions x active lanes, counted for benchmarks/emu.py */
    uint64_t vram_dispatches, other_dispatches; /* dispatches by the place of their code */
    struct sp_caches *caches[SP_EXEC_THREADS]; /* of each thread; kept across dispatches and jobs */
    struct sp_watch *watch; /* emu/order: other packets and jobs that may run meanwhile */
    struct sp_late *late;  /* emu/cp/late.c: packets under way */
    uint64_t seed;         /* for their order */
    void (*trace)(void *self, const char *line); /* NULL: off */
    void *trace_self;
    struct sp_races *races; /* accesses of the dispatch's waves, kept for the next dispatch (emu/race) */
};
#endif
