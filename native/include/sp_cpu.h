/* The cpu device: a thread pool, queues with a worker thread each, a table of kernels per instruction set. What is the same
 * for the queues of every backend is in sp_queue.h. */
#ifndef SP_CPU_H
#define SP_CPU_H
#include "sp_cmd.h"
#include "sp_queue.h"

enum sp_isa { SP_ISA_REF = 0, SP_ISA_NEON = 1, SP_ISA_AVX2 = 2, SP_ISA_AVX512 = 3 };

/* Kernel forms: SPAN is a one-dimensional grid kernel that takes a run of threads in one call; GRID is called once a
 * group; ROUTINE is one call that uses the whole device. */
enum sp_form { SP_FORM_SPAN = 1, SP_FORM_GRID = 2, SP_FORM_ROUTINE = 3 };

/* Of WINOGRAD an output tile is 4 x 4, of WINOGRAD2 2 x 2, of WINOGRAD6 6 x 6. */
enum sp_algo {
    SP_ALGO_AUTO = 0,
    SP_ALGO_NAIVE = 1,
    SP_ALGO_BLOCKED = 2,
    SP_ALGO_DIRECT = 3,
    SP_ALGO_IM2COL = 4,
    SP_ALGO_WINOGRAD = 5,
    SP_ALGO_WINOGRAD2 = 6,
    SP_ALGO_WINOGRAD6 = 7
};

/* A tile plan (types.TilePlan) as C sees it; 0 anywhere means the kernel's own default. */
struct sp_tile_plan {
    uint32_t algo;
    uint32_t mc;
    uint32_t nc;
    uint32_t kc;
    uint32_t mr;
    uint32_t nr;
    uint32_t threads;
    uint32_t pack; /* the weights are a blob of cpu/gemm/packed.h */
    uint32_t flags; /* enum sp_plan_flags */
    uint64_t blob_nbytes; /* set for each launch: bytes behind the pointer of a blob */
};

/* Bits of sp_tile_plan.flags. DETERMINISTIC: no bit of the result may depend on the number of threads; a kernel that would
 * let it (by splitting a sum among them) must not. Its own order of additions, in one thread, is as good as any. */
enum sp_plan_flags { SP_PLAN_DETERMINISTIC = 1 };

struct sp_cpu;
struct sp_cpu_queue;
struct sp_cpu_kernel;

/* Instruction sets this machine runs: bit (1 << isa). */
uint32_t sp_cpu_isa_mask(void);

int sp_cpu_open(uint32_t isa, uint32_t threads, struct sp_cpu **out);
/* Lets go of the device; its thread pool ends when its last queue has been released too. */
void sp_cpu_close(struct sp_cpu *dev);
/* Where there are several NUMA nodes: thread i of the pool (0 is the caller of a job, which is left where it is) stays on the
 * CPUs of node node_of_thread[i], which never falls; node_of_cpu[cpu] is UINT32_MAX for a CPU that is not ours. Before the
 * first job. -EINVAL: lists that make no sense, or too late. */
int sp_cpu_place(struct sp_cpu *dev, uint32_t nodes, const uint32_t *node_of_thread, uint32_t ncpus,
                 const uint32_t *node_of_cpu);
/* Keeps every thread that computes for a placed device on the CPUs of its nodes: the workers of its queues too. Nothing runs in
 * its callers. Before the first queue and kernel. -EINVAL: not placed. */
int sp_cpu_confine(struct sp_cpu *dev);
/* Touches new memory of a placed device for the first time: each node's threads do the part that the tasks of a grid give
 * them, so that Linux puts it there. Does nothing to small memory, or on one node. */
void sp_cpu_first_touch(struct sp_cpu *dev, void *p, uint64_t nbytes);
/* Pages of this memory that nobody has touched yet will be on that NUMA node, while it has room. 0, or -errno of mbind(2):
 * containers forbid it (-EPERM), kernels may lack it (-ENOSYS) or the node (-EINVAL). Not for memory below 64 KiB, which shares
 * pages with other memory. */
int sp_cpu_prefer_node(void *p, uint64_t nbytes, uint32_t node);
/* The -errno with which the kernel last refused to keep a thread of a placed device on its CPUs; 0: it did not. */
int sp_cpu_unpinned(const struct sp_cpu *dev);
uint32_t sp_cpu_threads(const struct sp_cpu *dev);
uint32_t sp_cpu_isa(const struct sp_cpu *dev);

/* Zeroed memory, 64-byte aligned (page aligned from 64 KiB on); NULL when there is none. `sp_cpu_free(NULL)` is fine. */
void *sp_cpu_alloc(uint64_t nbytes);
void sp_cpu_free(void *p);
/* The same over a new memfd that other processes may map; *fd is the caller's. */
void *sp_cpu_alloc_shared(uint64_t nbytes, int *fd);
void *sp_cpu_map_shared(int fd, uint64_t nbytes);

/* The table of built-in kernels. `name` NULL past the end. */
struct sp_cpu_entry {
    const char *name;
    uint32_t form;
    uint32_t args_nbytes; /* sizeof its argument struct, padded to 8 */
    uint32_t isa_mask;    /* instruction sets with a variant of their own */
};
int sp_cpu_entry(uint32_t index, struct sp_cpu_entry *out);

/* A built-in kernel by name: the variant of the device's instruction set, else the next lower one that exists.
 * -ENOENT unknown, -EINVAL signature and argument struct disagree. `plan` may be NULL. */
int sp_cpu_load(struct sp_cpu *dev, const char *name, const struct sp_signature *sig, const struct sp_tile_plan *plan,
                struct sp_cpu_kernel **out);
/* A user's kernel from a shared library: void entry(const void *args, const uint32_t group[3], const uint32_t
 * group_size[3]). -ENOEXEC dlopen failed, -ENOENT no such symbol; `why` receives the loader's words. */
int sp_cpu_load_library(struct sp_cpu *dev, const char *path, const char *entry, const struct sp_signature *sig,
                        char *why, size_t why_nbytes, struct sp_cpu_kernel **out);
void sp_cpu_unload(struct sp_cpu_kernel *k);
uint32_t sp_cpu_kernel_form(const struct sp_cpu_kernel *k);
uint32_t sp_cpu_kernel_isa(const struct sp_cpu_kernel *k);

int sp_cpu_queue_open(struct sp_cpu *dev, uint32_t flags, struct sp_cpu_queue **out);
/* Waits for what was submitted, then ends the worker. -ETIMEDOUT: something still runs; the queue takes no more work,
 * and may be closed again later. The handle stays valid until it is released. */
int sp_cpu_queue_close(struct sp_cpu_queue *q, uint64_t timeout_ns);

/* Would these records be taken? 0 or the error that launch or submit would return. */
int sp_cpu_check(const struct sp_cpu *dev, const void *records, size_t nbytes);

/* One dispatch record. Returns the timeline value (> 0) or -errno; a built-in kernel that is a routine, or has one group,
 * runs in the caller when the queue is idle. */
int64_t sp_cpu_launch(void *queue, const void *record, size_t nbytes, uint64_t epoch);
int64_t sp_cpu_run(struct sp_prepared *p);
/* An array of records, replayed in order by the queue's worker. The records are copied. */
int64_t sp_cpu_submit(void *queue, const void *records, size_t nbytes, uint64_t epoch);
/* Copies host memory to `address`, in the caller when the queue is idle: the value at which it is done. The bytes may change as
 * soon as this returns. */
int64_t sp_cpu_upload(struct sp_cpu_queue *q, uint64_t address, const void *data, uint64_t nbytes);
/* All four return -EAGAIN, and submit nothing, while the queue holds as much as it may. This waits until half of that has ended:
 * 0 or -ETIMEDOUT. */
int sp_cpu_room(struct sp_cpu_queue *q, uint64_t timeout_ns);

uint64_t sp_cpu_reached(void *queue);
/* 0 reached, -ETIMEDOUT, or the error with which that submission ended. */
int sp_cpu_wait(void *queue, uint64_t value, uint64_t timeout_ns);

/* A copy of a submission that has not ended. Returns the bytes of records (may exceed `capacity`), -ENOENT if ended. */
int64_t sp_cpu_peek(struct sp_cpu_queue *q, uint64_t value, void *records, size_t capacity, struct sp_progress *out);
#endif
