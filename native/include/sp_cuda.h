/* The cuda device, through nothing but NVIDIA's driver library, which is found at run time. A queue
 * is a stream. Functions of queues work like those of the same name in sp_cpu.h. Functions that
 * call the driver record a text about their failure (sp_cuda_why). */
#ifndef SP_CUDA_H
#define SP_CUDA_H
#include "sp_cmd.h"
#include "sp_queue.h"

struct sp_cuda;
struct sp_cuda_queue;
struct sp_cuda_kernel;
struct sp_cuda_memory;

/* Kinds of memory. DEVICE: memory of the GPU, from the driver's stream-ordered pool if there is
 * one. HOST: page-locked memory from this backend's own pool. SHARED: a mapped file that host and
 * GPU reach. ALONE: memory of the GPU outside the pool, so that other processes can share it. */
enum sp_cuda_memory_kind { SP_CUDA_DEVICE = 0, SP_CUDA_HOST = 1, SP_CUDA_SHARED = 2, SP_CUDA_ALONE = 3 };

enum sp_cuda_feature {
    SP_CUDA_POOLS = 1, /* the driver can allocate memory in stream order */
    SP_CUDA_GRAPHS = 2,
    SP_CUDA_PARAMS = 4,     /* the driver reports the sizes of a kernel's arguments */
    SP_CUDA_INTEGRATED = 8, /* the GPU has no memory of its own */
    SP_CUDA_IPC = 16,       /* memory can be shared with other processes */
    SP_CUDA_EMULATED = 32   /* the driver library says that there is no GPU behind it */
};

struct sp_cuda_info {
    char name[256];
    char pci[32]; /* such as "0000:01:00.0"; "" if the driver does not report it */
    int32_t ordinal;
    int32_t driver_version; /* 12040 stands for CUDA 12.4 */
    int32_t major, minor;   /* compute capability */
    uint64_t memory_nbytes;
    uint32_t units;       /* number of multiprocessors */
    uint32_t max_threads; /* most threads in a group */
    uint32_t max_group[3];
    uint32_t max_groups[3];
    uint32_t shared_nbytes; /* limit of the shared memory of one group, in bytes */
    /* limit of the shared memory that a kernel may use unless it asks the driver for more, in
     * bytes */
    uint32_t plain_shared_nbytes;
    uint32_t l2_nbytes;
    uint32_t clock_khz;
    uint32_t features; /* enum sp_cuda_feature */
};

/* Copies a text about this thread's last failure: the driver's call and its message. Returns the
 * bytes of the text. */
size_t sp_cuda_why(char *out, size_t capacity);

/* Returns 1 if this process was forked from the process that loaded the driver, else 0. */
int sp_cuda_forked(void);

/* Describes device `ordinal`. Loads and initialises the driver library, but makes no context.
 * Returns 0; -ENOENT or -ELIBBAD as sp_dl_probe_cuda does; -ECHILD if a parent process loaded the
 * driver; -ENODEV if the driver has no device `ordinal`. */
int sp_cuda_describe(const char *paths, int32_t ordinal, struct sp_cuda_info *out);
/* Opens a device. Retains the primary context, which other users of CUDA in this process share. The
 * caller owns `*out`. */
int sp_cuda_open(const char *paths, int32_t ordinal, struct sp_cuda **out);
/* Releases the device. The context is released after the last queue, kernel and memory are
 * released. */
void sp_cuda_close(struct sp_cuda *dev);
/* Copies the reason why the device was lost; "" if it was not lost. Returns the bytes of the
 * text. */
size_t sp_cuda_lost(struct sp_cuda *dev, char *out, size_t capacity);
/* Gives the device's description as it was when the device was opened. */
void sp_cuda_facts(const struct sp_cuda *dev, struct sp_cuda_info *out);
/* Returns the primary context, a CUcontext. */
void *sp_cuda_context(const struct sp_cuda *dev);
/* Gives the free bytes of the GPU's memory, which all processes share. */
int sp_cuda_free_nbytes(struct sp_cuda *dev, uint64_t *nbytes);

/* Allocates memory and zeroes it in stream order: every queue of this device sees zeros. Returns 0,
 * -ENOMEM, or -EINVAL for an unknown `kind`. */
int sp_cuda_alloc(struct sp_cuda *dev, uint64_t nbytes, uint32_t kind, struct sp_cuda_memory **out);
/* Imports memory that was exported as `fd`; the caller keeps `fd`. The memory is a mapped file, or
 * another process's memory of this GPU, which that process must keep alive. Returns 0, -EINVAL if
 * the file is too short, or -ENXIO if the import fails (sp_cuda_why has details). */
int sp_cuda_import(struct sp_cuda *dev, int fd, uint64_t nbytes, struct sp_cuda_memory **out);
/* Makes host memory usable in place, page-locked until it is freed. */
int sp_cuda_wrap(struct sp_cuda *dev, void *host, uint64_t nbytes, int readonly, struct sp_cuda_memory **out);
/* Wraps GPU memory of another owner. Freeing the wrapper does not free that memory. */
int sp_cuda_adopt(struct sp_cuda *dev, uint64_t address, uint64_t nbytes, struct sp_cuda_memory **out);
uint64_t sp_cuda_address(const struct sp_cuda_memory *m);
/* Returns the host address, or NULL if the host cannot reach the memory. */
void *sp_cuda_host(const struct sp_cuda_memory *m);
/* Exports SHARED or ALONE memory as a new descriptor and returns it. Returns -EPERM for other
 * kinds. */
int sp_cuda_export(struct sp_cuda_memory *m);
void sp_cuda_hold(struct sp_cuda_memory *m);
/* Drops one reference. The caller must make sure that no submission still uses the memory when it
 * drops the last one. */
void sp_cuda_free(struct sp_cuda_memory *m);

/* Properties of a loaded kernel. */
struct sp_cuda_shape {
    uint32_t max_threads;
    uint32_t registers;
    /* bytes of shared memory that the kernel itself declares; a launch may add more */
    uint32_t shared_nbytes;
    uint32_t local_nbytes;   /* bytes of local memory per thread, for spilled registers */
    uint32_t binary_version; /* 90 stands for compute capability 9.0 */
};

/* Loads a kernel. `image` is PTX as text, a cubin or a fatbin: `nbytes` bytes and a zero byte
 * behind them. Kernels from equal bytes share one driver module. Returns 0; -ENOEXEC if the driver
 * rejects the image, with its message and the compiler's log in `why`; -ENOENT without such an
 * entry; -EINVAL if the entry's arguments differ from `sig`, with the difference in `why`. */
int sp_cuda_load_image(struct sp_cuda *dev, const void *image, size_t nbytes, const char *entry, const char *name,
                       const struct sp_signature *sig, char *why, size_t why_nbytes, struct sp_cuda_kernel **out);
void sp_cuda_unload(struct sp_cuda_kernel *k);
void sp_cuda_kernel_shape(const struct sp_cuda_kernel *k, struct sp_cuda_shape *out);

int sp_cuda_queue_open(struct sp_cuda *dev, uint32_t flags, struct sp_cuda_queue **out);
int sp_cuda_queue_close(struct sp_cuda_queue *q, uint64_t timeout_ns);
/* Returns the CUstream, for other users of CUDA in this process. */
void *sp_cuda_stream(const struct sp_cuda_queue *q);

/* Orders a queue and a stream. `stream` is a CUstream, or CU_STREAM_LEGACY (1),
 * CU_STREAM_PER_THREAD (2). After sp_cuda_wait_stream, the queue's next work runs after the
 * stream's earlier work. After sp_cuda_order_stream, the stream's next work runs after the queue's
 * earlier work. */
int sp_cuda_wait_stream(struct sp_cuda_queue *q, uint64_t stream);
int sp_cuda_order_stream(struct sp_cuda_queue *q, uint64_t stream);
/* Returns 1 if the address is memory of the device, whoever allocated it, else 0 or -errno. */
int sp_cuda_owns(struct sp_cuda *dev, uint64_t address);

int sp_cuda_check(const struct sp_cuda *dev, const void *records, size_t nbytes);

int64_t sp_cuda_launch(void *queue, const void *record, size_t nbytes, uint64_t epoch);
int64_t sp_cuda_run(struct sp_prepared *p);
int64_t sp_cuda_submit(void *queue, const void *records, size_t nbytes, uint64_t epoch);
/* Copies host memory to the device. `data` may change when the call returns, because it was copied
 * to a staging buffer. */
int64_t sp_cuda_upload(struct sp_cuda_queue *q, uint64_t address, const void *data, uint64_t nbytes);
/* Copies device memory to the host. `data` has the bytes when the timeline value is reached. */
int64_t sp_cuda_download(struct sp_cuda_queue *q, uint64_t address, void *data, uint64_t nbytes);
/* Returns 1 if `dev` can read memory of `peer` directly, else 0. */
int sp_cuda_reaches(struct sp_cuda *dev, struct sp_cuda *peer);
/* Copies from address `src` of `peer` to address `dst` of the queue's device. */
int64_t sp_cuda_copy_peer(struct sp_cuda_queue *q, uint64_t dst, struct sp_cuda *peer, uint64_t src, uint64_t nbytes);

uint64_t sp_cuda_reached(void *queue);
int sp_cuda_wait(void *queue, uint64_t value, uint64_t timeout_ns);
/* Copies a text about a failed submission; "" if there is none. Returns the bytes of the text. */
size_t sp_cuda_fault(struct sp_cuda_queue *q, uint64_t value, char *out, size_t capacity);
int64_t sp_cuda_peek(struct sp_cuda_queue *q, uint64_t value, void *records, size_t capacity, struct sp_progress *out);

/* Counts of how command lists reached the driver since the device was opened. */
struct sp_cuda_counts {
    /* number of lists of commands that were sent as single calls, not as a CUDA graph */
    uint64_t replayed;
    uint64_t graph_builds;
    uint64_t graph_launches;
    uint64_t graph_updates; /* number of kernel nodes of CUDA graphs that got new arguments */
};
void sp_cuda_counts(const struct sp_cuda *dev, struct sp_cuda_counts *out);
/* Sets the fewest dispatches, copies and fills for which a resubmitted list becomes a graph; 0
 * changes nothing. Returns the previous value. */
uint32_t sp_cuda_graph_nodes(struct sp_cuda *dev, uint32_t least);
#endif
