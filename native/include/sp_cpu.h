/* The cpu device: a thread pool, queues with a worker thread each, and a table of kernels per
 * instruction set. sp_queue.h has what the queues of all backends share. */
#ifndef SP_CPU_H
#define SP_CPU_H
#include "sp_cmd.h"
#include "sp_queue.h"

enum sp_isa { SP_ISA_REF = 0, SP_ISA_NEON = 1, SP_ISA_AVX2 = 2, SP_ISA_AVX512 = 3 };

/* Kernel forms. SPAN: the grid has one dimension, and one call computes consecutive threads. GRID:
 * one call computes one group. ROUTINE: one call uses the whole device. */
enum sp_form { SP_FORM_SPAN = 1, SP_FORM_GRID = 2, SP_FORM_ROUTINE = 3 };

/* Algorithms of gemm and conv2d. Winograd's output tiles are 4 x 4 (WINOGRAD), 2 x 2 (WINOGRAD2)
 * and 6 x 6 (WINOGRAD6). */
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

/* A tile plan (types.TilePlan) for C. A field of 0 means the kernel's default. */
struct sp_tile_plan {
    uint32_t algo;
    uint32_t mc;
    uint32_t nc;
    uint32_t kc;
    uint32_t mr;
    uint32_t nr;
    uint32_t threads;
    uint32_t pack; /* 1: the weights are a packed blob (cpu/gemm/packed.h) */
    uint32_t flags; /* enum sp_plan_flags */
    /* bytes from the start of the packed weights (the blob) to the end of their memory; set for
     * each launch */
    uint64_t blob_nbytes;
};

/* Bits of sp_tile_plan.flags.
 *
 * DETERMINISTIC: the number of threads must not change any bit of the result. So a kernel must not
 * split a sum among threads if the split would change the result. The order of additions within one
 * thread is free. */
enum sp_plan_flags { SP_PLAN_DETERMINISTIC = 1 };

struct sp_cpu;
struct sp_cpu_queue;
struct sp_cpu_kernel;

/* Returns the instruction sets that this machine can run, as bits (1 << isa). */
uint32_t sp_cpu_isa_mask(void);

int sp_cpu_open(uint32_t isa, uint32_t threads, struct sp_cpu **out);
/* Releases the device. Its thread pool ends after the last queue is released. */
void sp_cpu_close(struct sp_cpu *dev);
/* For machines with several NUMA nodes: pins thread i of the pool to the CPUs of node
 * node_of_thread[i]. Thread 0 is not pinned: it is the thread that calls the pool. node_of_thread
 * never decreases. node_of_cpu[cpu] is UINT32_MAX for a CPU that this process must not use. To be
 * called before the pool computes anything. Returns 0, or -EINVAL for malformed lists or a late
 * call. */
int sp_cpu_place(struct sp_cpu *dev, uint32_t nodes, const uint32_t *node_of_thread, uint32_t ncpus,
                 const uint32_t *node_of_cpu);
/* Pins every thread that computes for the device, queue workers too, to the CPUs that sp_cpu_place
 * named. Kernels then never run in the calling thread. To be called before the first queue and
 * kernel. Returns 0, or -EINVAL without an earlier sp_cpu_place. */
int sp_cpu_confine(struct sp_cpu *dev);
/* Makes the first writes to new memory, so that Linux places the memory by NUMA node. The memory is
 * split among the threads of the nodes as the groups of a grid are. Does nothing for small memory,
 * on one node, or without sp_cpu_place. */
void sp_cpu_first_touch(struct sp_cpu *dev, void *p, uint64_t nbytes);
/* Asks Linux to place untouched pages of this memory on a NUMA node while the node has room.
 * Returns 0 or -errno of mbind(2): -EPERM in containers that forbid it, -ENOSYS or -EINVAL if this
 * Linux lacks the call or the node. Not for memory below 64 KiB, which shares pages with other
 * memory. */
int sp_cpu_prefer_node(void *p, uint64_t nbytes, uint32_t node);
/* Returns -errno of the last failure to pin a thread of the device, or 0 if none failed. */
int sp_cpu_unpinned(const struct sp_cpu *dev);
uint32_t sp_cpu_threads(const struct sp_cpu *dev);
uint32_t sp_cpu_isa(const struct sp_cpu *dev);

/* Returns zeroed memory, 64-byte aligned, page aligned from 64 KiB on, or NULL when there is none.
 * `sp_cpu_free(NULL)` is allowed. */
void *sp_cpu_alloc(uint64_t nbytes);
void sp_cpu_free(void *p);
/* Allocates as sp_cpu_alloc does, in a new memfd that other processes may map. The caller owns
 * *fd. */
void *sp_cpu_alloc_shared(uint64_t nbytes, int *fd);
void *sp_cpu_map_shared(int fd, uint64_t nbytes);

/* An entry of the table of built-in kernels. `name` is NULL past the end. */
struct sp_cpu_entry {
    const char *name;
    uint32_t form;
    uint32_t args_nbytes; /* size of the argument struct, padded to 8 */
    /* bit 1 << isa is set for each instruction set for which the kernel has its own variant */
    uint32_t isa_mask;
};
int sp_cpu_entry(uint32_t index, struct sp_cpu_entry *out);

/* Loads a built-in kernel by name: the variant of the device's instruction set, else the next lower
 * variant. Returns 0, -ENOENT for an unknown name, or -EINVAL if signature and argument struct
 * disagree. `plan` may be NULL. */
int sp_cpu_load(struct sp_cpu *dev, const char *name, const struct sp_signature *sig, const struct sp_tile_plan *plan,
                struct sp_cpu_kernel **out);
/* Loads a user's kernel from a shared library. The symbol `entry` must be a function void
 * entry(const void *args, const uint32_t group[3], const uint32_t group_size[3]). Returns 0,
 * -ENOEXEC if dlopen failed, or -ENOENT if the library has no symbol `entry`. Writes the loader's
 * message to `why`. */
int sp_cpu_load_library(struct sp_cpu *dev, const char *path, const char *entry, const struct sp_signature *sig,
                        char *why, size_t why_nbytes, struct sp_cpu_kernel **out);
void sp_cpu_unload(struct sp_cpu_kernel *k);
uint32_t sp_cpu_kernel_form(const struct sp_cpu_kernel *k);
uint32_t sp_cpu_kernel_isa(const struct sp_cpu_kernel *k);

int sp_cpu_queue_open(struct sp_cpu *dev, uint32_t flags, struct sp_cpu_queue **out);
/* Waits for submitted work, then ends the worker. Returns -ETIMEDOUT if work still runs; the queue
 * then accepts no more work and may be closed again later. The handle stays valid until it is
 * released. */
int sp_cpu_queue_close(struct sp_cpu_queue *q, uint64_t timeout_ns);

/* Checks records without submitting them. Returns 0, or the error that launch or submit would
 * return. */
int sp_cpu_check(const struct sp_cpu *dev, const void *records, size_t nbytes);

/* Submits one dispatch record. Returns the timeline value (> 0) or -errno. If the queue is idle,
 * the calling thread itself runs built-in routines, and built-in kernels with one group. */
int64_t sp_cpu_launch(void *queue, const void *record, size_t nbytes, uint64_t epoch);
int64_t sp_cpu_run(struct sp_prepared *p);
/* Submits a copy of an array of records, which the queue's worker runs in order. Returns the
 * timeline value (> 0) or -errno. */
int64_t sp_cpu_submit(void *queue, const void *records, size_t nbytes, uint64_t epoch);
/* Copies host memory to `address`, in the calling thread if the queue is idle. Returns the timeline
 * value at which the copy is done, or -errno. `data` may change as soon as the call returns. */
int64_t sp_cpu_upload(struct sp_cpu_queue *q, uint64_t address, const void *data, uint64_t nbytes);
/* Waits until at least half of the queue's unfinished submissions have ended. Returns 0 or
 * -ETIMEDOUT. While a queue is full, launch, run, submit and upload return -EAGAIN and submit
 * nothing. */
int sp_cpu_room(struct sp_cpu_queue *q, uint64_t timeout_ns);

uint64_t sp_cpu_reached(void *queue);
/* Waits for a timeline value. Returns 0 when it is reached, -ETIMEDOUT, or the error with which
 * that submission ended. */
int sp_cpu_wait(void *queue, uint64_t value, uint64_t timeout_ns);

/* Copies the records of a submission that has not ended. Returns their bytes, which may exceed
 * `capacity`, or -ENOENT if it has ended. */
int64_t sp_cpu_peek(struct sp_cpu_queue *q, uint64_t value, void *records, size_t capacity, struct sp_progress *out);
#endif
