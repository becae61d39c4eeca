/* What a CPU kernel is written against: its form, the pool that runs its tasks, scratch memory. */
#ifndef SP_CPU_KERNEL_H
#define SP_CPU_KERNEL_H
#include "include/sp_cpu.h"

struct sp_pool;

/* SPAN: threads [begin, end) of a one-dimensional grid; the kernel clips `end` to its own n. */
typedef void sp_span_fn(const void *args, uint64_t begin, uint64_t end);
/* GRID: one group; also the ABI of user libraries. */
typedef void sp_grid_fn(const void *args, const uint32_t group[3], const uint32_t group_size[3]);
/* ROUTINE: the whole job; 0 or -errno (-ENOMEM no scratch, -EINVAL arguments that make no sense). `plan` is never NULL,
 * its zero fields mean "choose". */
typedef int sp_routine_fn(const void *args, const struct sp_tile_plan *plan, struct sp_pool *pool);

/* Runs task(ctx, i) for each i < tasks on at most `threads` threads (0: all), the caller among them; returns when all
 * are done. When the pool serves somebody else already, the caller does everything itself. */
typedef void sp_task_fn(void *ctx, uint32_t index);
void sp_pool_run(struct sp_pool *pool, sp_task_fn *task, void *ctx, uint32_t tasks, uint32_t threads);
uint32_t sp_pool_threads(const struct sp_pool *pool);
/* When to use threads, for kernels that know how long one core would take (the plan has `most`; 0: all):
 * into how many threads' work to cut it, which depends on nothing else, so that bits do not either, */
uint32_t sp_pool_worth(const struct sp_pool *pool, uint32_t most, double work_ns);
/* and how many of those to run it on now: 1 where all would have to be woken for less than that costs. Asked once a call. */
uint32_t sp_pool_ready(struct sp_pool *pool, uint32_t threads, double work_ns);

/* Memory of the calling thread, 64-byte aligned, kept for the next call, contents undefined: one block a slot, so that
 * one call may use several. NULL when there is none. */
enum { SP_SCRATCH_A = 0, SP_SCRATCH_B = 1, SP_SCRATCH_C = 2, SP_SCRATCH_SHARED = 3, SP_SCRATCH_SLOTS = 4 };
void *sp_scratch(uint32_t slot, size_t nbytes);

enum sp_activation { SP_ACT_NONE = 0, SP_ACT_RELU = 1, SP_ACT_TANH = 2, SP_ACT_SIGMOID = 3 };

/* One row of the kernel table (isa/table.c): a function per instruction set, NULL where the next lower one serves. */
struct sp_cpu_row {
    const char *name;
    uint32_t form;
    uint32_t args_nbytes; /* sizeof the struct in args.h */
    void (*fn[4])(void);  /* indexed by enum sp_isa; fn[SP_ISA_REF] is never NULL */
};
extern const struct sp_cpu_row sp_cpu_rows[];
extern const uint32_t sp_cpu_nrows;
#endif
