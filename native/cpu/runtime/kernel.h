/* The interface for CPU kernels: their forms, the pool that runs their tasks, scratch memory. */
#ifndef SP_CPU_KERNEL_H
#define SP_CPU_KERNEL_H
#include "include/sp_cpu.h"

struct sp_pool;

/* SPAN form: computes threads [begin, end) of a one-dimensional grid. `end` may exceed the number
 * of elements (the kernel's argument n), so the kernel limits it to that number. */
typedef void sp_span_fn(const void *args, uint64_t begin, uint64_t end);
/* GRID form: computes one group. This is also the ABI of user libraries. */
typedef void sp_grid_fn(const void *args, const uint32_t group[3], const uint32_t group_size[3]);
/* ROUTINE form: computes the whole job. Returns 0 or -errno: -ENOMEM without scratch memory,
 * -EINVAL for malformed arguments. `plan` is never NULL; zero fields leave the choice to the
 * routine. */
typedef int sp_routine_fn(const void *args, const struct sp_tile_plan *plan, struct sp_pool *pool);

typedef void sp_task_fn(void *ctx, uint32_t index);
/* Runs task(ctx, i) for each i < tasks on at most `threads` threads (0: all), the caller's among
 * them. Returns when all tasks are done. If the pool serves another caller, the caller runs all
 * tasks itself. */
void sp_pool_run(struct sp_pool *pool, sp_task_fn *task, void *ctx, uint32_t tasks, uint32_t threads);
uint32_t sp_pool_threads(const struct sp_pool *pool);
/* Returns how many threads are worth using for work that takes one core `work_ns` ns. `most` is the
 * plan's limit on the number of threads; 0: no limit. The returned number does not depend on how
 * busy the machine is, so the kernel's results do not either. */
uint32_t sp_pool_worth(const struct sp_pool *pool, uint32_t most, double work_ns);
/* Returns how many of `threads` threads to use now: 1 if all workers sleep and waking them costs
 * more than the work. To be called once per job. */
uint32_t sp_pool_ready(struct sp_pool *pool, uint32_t threads, double work_ns);

enum { SP_SCRATCH_A = 0, SP_SCRATCH_B = 1, SP_SCRATCH_C = 2, SP_SCRATCH_SHARED = 3, SP_SCRATCH_SLOTS = 4 };
/* Returns scratch memory of the calling thread, 64-byte aligned, with undefined contents, or NULL
 * if memory is short. Each thread has a block of memory for each `slot` (SP_SCRATCH_A, ...), so a
 * kernel may use several. The next call for a slot reuses the block of that slot. */
void *sp_scratch(uint32_t slot, size_t nbytes);

enum sp_activation { SP_ACT_NONE = 0, SP_ACT_RELU = 1, SP_ACT_TANH = 2, SP_ACT_SIGMOID = 3 };

/* A row of the kernel table (isa/table.c), with a function per instruction set. If an entry of `fn`
 * is NULL, the function of the next lower instruction set is used. */
struct sp_cpu_row {
    const char *name;
    uint32_t form;
    uint32_t args_nbytes; /* bytes of the argument struct in args.h */
    void (*fn[4])(void);  /* indexed by enum sp_isa; fn[SP_ISA_REF] is never NULL */
};
extern const struct sp_cpu_row sp_cpu_rows[];
extern const uint32_t sp_cpu_nrows;
#endif
