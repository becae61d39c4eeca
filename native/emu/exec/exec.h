/* The state of the execution of one job. The thread of a hardware ring passes this state to the
 * command processor, SDMA and waves. */
#ifndef SP_EMU_EXEC_H
#define SP_EMU_EXEC_H
#include "emu/memory/vm.h"

#include <stdbool.h>

/* The facts of a chip that packets and waves need. All other facts, which only INFO reports, are in
 * kmd/. */
struct sp_emu_chip {
    const char *name;    /* "gfx1100" */
    uint32_t generation; /* 10: gfx10.3, RDNA2; 11: gfx11, RDNA3 */
    /* minor number of gfx_version: 3 of gfx10.3; 5 of gfx11.5 (RDNA3.5), which has more
     * instructions */
    uint32_t minor;
    uint32_t num_se;     /* number of shader engines */
    uint32_t num_cu;
    uint32_t counter_khz; /* frequency of the GPU clock */
    struct sp_emu_flaw_of {
        uint32_t planted;
        uint64_t a, b;
    } flaw[SP_FLAWS];
};

/* Returns a flaw if it is planted, else NULL. */
static inline const struct sp_emu_flaw_of *sp_emu_flaw(const struct sp_emu_chip *chip, enum sp_emu_flaw which)
{
    return chip->flaw[which].planted ? &chip->flaw[which] : NULL;
}

struct sp_emu_exec;
/* Adds the CPU time of the calling thread since `*counted_ns` to the job's work. Returns true if the
 * job is beyond its time limit. */
bool sp_emu_worked(struct sp_emu_exec *x, uint64_t *counted_ns);
/* Returns the CPU time of the calling thread, in ns. */
uint64_t sp_emu_thread_ns(void);
/* Returns the GPU clock: the time of CLOCK_MONOTONIC in ticks of chip->counter_khz, 40 ppm fast. */
uint64_t sp_emu_gpu_clock(const struct sp_emu_chip *chip);

struct sp_caches;
struct sp_late;
struct sp_races;
enum { SP_EXEC_THREADS = 64 }; /* largest number of host threads for one dispatch */
struct sp_emu_exec {
    const struct sp_emu_chip *chip;
    struct sp_emu_tlb tlb;
    struct sp_emu_fault fault;
    uint32_t lenient;      /* bits of enum sp_emu_lenient; 0: strict */
    /* register GB_ADDR_CONFIG: pipes and packers, which determine the swizzling of images */
    uint32_t gb_addr_config;
    /* number of host threads that run groups; with 1 the order of groups is always the same */
    uint32_t threads;
    /* The job's time limit, and its work so far, which threads add atomically: CPU time of the
     * threads that execute it, and waits of packets. So a busy host ends no job. Checked every few
     * thousand instructions. A limit of 0 is none. */
    uint64_t limit_ns, worked_ns;
    uint64_t cpu_ns; /* CPU time of the ring's thread that `worked_ns` already has */
    /* 1: caches above GL2 keep their lines at the beginning of an IB */
    uint32_t keep_caches;
    const uint32_t *cancel; /* read atomically: nonzero means stop now with -ECANCELED */
    uint64_t lane_ops;     /* instructions x active lanes, counted for benchmarks/emu.py */
    /* number of dispatches whose code is in VRAM, and of all others */
    uint64_t vram_dispatches, other_dispatches;
    /* caches of each host thread; they persist across dispatches and jobs */
    struct sp_caches *caches[SP_EXEC_THREADS];
    /* checks accesses against other packets and jobs that may run at the same time (emu/order) */
    struct sp_watch *watch;
    struct sp_late *late;  /* packets that have been started but have not ended (emu/cp/async_packets.c) */
    uint64_t seed;         /* decides the order in which the started packets of `late` end */
    /* receives each line of the trace; NULL: tracing is off */
    void (*trace)(void *self, const char *line);
    void *trace_self;
    /* records of the accesses of the dispatch's waves (emu/race); the next dispatch reuses the
     * struct */
    struct sp_races *races;
};
/* Makes `packet`, the log of the packet that the thread now executes, record the thread's accesses.
 * With NULL the packet is not logged, because no other packet can run at the same time or because
 * the packet uses scratch. */
static inline void sp_emu_watch_packet(struct sp_emu_exec *x, struct sp_log *packet)
{
    x->watch->row[SP_WATCH_PACKETS].mine = packet;
    x->tlb.watch = packet || x->watch->row[SP_WATCH_JOBS].mine ? x->watch : NULL;
}
#endif
