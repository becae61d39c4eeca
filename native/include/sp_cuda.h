/* The cuda device: NVIDIA's driver library alone, found at run time. A queue is a stream; its functions are what those of
 * sp_cpu.h are. Functions that ask the driver leave words about their failure behind (sp_cuda_why). */
#ifndef SP_CUDA_H
#define SP_CUDA_H
#include "sp_cmd.h"
#include "sp_queue.h"

struct sp_cuda;
struct sp_cuda_queue;
struct sp_cuda_kernel;
struct sp_cuda_memory;

/* DEVICE: the GPU's own, from the driver's stream-ordered pool where it has one. HOST: page-locked, from a pool of ours.
 * SHARED: a mapped file that both the host and the GPU reach. ALONE: the GPU's own, not from the pool, so that other
 * processes can be given it. */
enum sp_cuda_memory_kind { SP_CUDA_DEVICE = 0, SP_CUDA_HOST = 1, SP_CUDA_SHARED = 2, SP_CUDA_ALONE = 3 };

enum sp_cuda_feature {
    SP_CUDA_POOLS = 1,      /* stream-ordered allocation */
    SP_CUDA_GRAPHS = 2,
    SP_CUDA_PARAMS = 4,     /* it tells the sizes of a kernel's arguments */
    SP_CUDA_INTEGRATED = 8, /* it has no memory of its own */
    SP_CUDA_IPC = 16,       /* other processes can be given its memory */
    SP_CUDA_EMULATED = 32   /* the driver library says that there is no GPU behind it */
};

struct sp_cuda_info {
    char name[256];
    char pci[32]; /* "0000:01:00.0", "" where the driver does not tell */
    int32_t ordinal;
    int32_t driver_version; /* 12040: CUDA 12.4 */
    int32_t major, minor;   /* compute capability */
    uint64_t memory_nbytes;
    uint32_t units;         /* multiprocessors */
    uint32_t max_threads;   /* in a group */
    uint32_t max_group[3];
    uint32_t max_groups[3];
    uint32_t shared_nbytes; /* most that a group can have */
    uint32_t plain_shared_nbytes; /* most that a kernel can have without asking */
    uint32_t l2_nbytes;
    uint32_t clock_khz;
    uint32_t features; /* enum sp_cuda_feature */
};

/* Words about this thread's last failure in here: the driver's call and what it said. Returns their bytes. */
size_t sp_cuda_why(char *out, size_t capacity);

/* Was this process forked from the one that loaded the driver? */
int sp_cuda_forked(void);

/* What device `ordinal` says of itself; the library is loaded and initialised, no context is made. -ENOENT, -ELIBBAD as
 * sp_dl_probe_cuda; -ECHILD: it belongs to the process that this one was forked from; -ENODEV. */
int sp_cuda_describe(const char *paths, int32_t ordinal, struct sp_cuda_info *out);
/* Retains the primary context, which other users of CUDA in this process share; `*out` is the caller's. */
int sp_cuda_open(const char *paths, int32_t ordinal, struct sp_cuda **out);
/* Lets go of the device; the context is released when the last queue, kernel and memory have gone. */
void sp_cuda_close(struct sp_cuda *dev);
/* Why the device was lost; "" while it is not. Returns the bytes. */
size_t sp_cuda_lost(struct sp_cuda *dev, char *out, size_t capacity);
/* What it said of itself when it was opened. */
void sp_cuda_facts(const struct sp_cuda *dev, struct sp_cuda_info *out);
/* The primary context, a CUcontext. */
void *sp_cuda_context(const struct sp_cuda *dev);
/* Bytes of the GPU's memory that are not taken, by anybody. */
int sp_cuda_free_nbytes(struct sp_cuda *dev, uint64_t *nbytes);

/* Zeroed (the GPU does that in order: a queue of this device sees it). -ENOMEM; -EINVAL. */
int sp_cuda_alloc(struct sp_cuda *dev, uint64_t nbytes, uint32_t kind, struct sp_cuda_memory **out);
/* What was exported as `fd`, which stays the caller's: the mapped file (-EINVAL when it is shorter), or another process's
 * memory of this GPU (-ENXIO: `sp_cuda_why` says why not), which that must keep as long. */
int sp_cuda_import(struct sp_cuda *dev, int fd, uint64_t nbytes, struct sp_cuda_memory **out);
/* Host memory in place, page-locked until it is freed. */
int sp_cuda_wrap(struct sp_cuda *dev, void *host, uint64_t nbytes, int readonly, struct sp_cuda_memory **out);
/* Memory of the GPU that is somebody else's: nothing is freed. */
int sp_cuda_adopt(struct sp_cuda *dev, uint64_t address, uint64_t nbytes, struct sp_cuda_memory **out);
uint64_t sp_cuda_address(const struct sp_cuda_memory *m);
/* NULL where the host does not reach it. */
void *sp_cuda_host(const struct sp_cuda_memory *m);
/* A new descriptor of SHARED or ALONE memory; -EPERM of any other. */
int sp_cuda_export(struct sp_cuda_memory *m);
void sp_cuda_hold(struct sp_cuda_memory *m);
/* One holder less. Nothing submitted uses it any more when the last one goes. */
void sp_cuda_free(struct sp_cuda_memory *m);

/* What a kernel takes. */
struct sp_cuda_shape {
    uint32_t max_threads;
    uint32_t registers;
    uint32_t shared_nbytes; /* its own, whatever a launch adds */
    uint32_t local_nbytes;  /* per thread: what did not fit into registers */
    uint32_t binary_version; /* 90: compiled for compute capability 9.0 */
};

/* `image` is PTX as text, a cubin or a fatbin: `nbytes` bytes and a zero byte behind them. Kernels of the same bytes share what
 * the driver made of them. -ENOEXEC: the driver does not take it, `why`
 * receives its words and the compiler's log; -ENOENT: no such entry; -EINVAL: the entry's arguments are not those of
 * `sig`, `why` says which. */
int sp_cuda_load_image(struct sp_cuda *dev, const void *image, size_t nbytes, const char *entry, const char *name,
                       const struct sp_signature *sig, char *why, size_t why_nbytes, struct sp_cuda_kernel **out);
void sp_cuda_unload(struct sp_cuda_kernel *k);
void sp_cuda_kernel_shape(const struct sp_cuda_kernel *k, struct sp_cuda_shape *out);

int sp_cuda_queue_open(struct sp_cuda *dev, uint32_t flags, struct sp_cuda_queue **out);
int sp_cuda_queue_close(struct sp_cuda_queue *q, uint64_t timeout_ns);
/* The CUstream, for others who use CUDA in this process. */
void *sp_cuda_stream(const struct sp_cuda_queue *q);

/* `stream` is a CUstream, or CU_STREAM_LEGACY (1), CU_STREAM_PER_THREAD (2): the queue's next work runs after what the
 * stream has been given; the stream's next after the queue's. */
int sp_cuda_wait_stream(struct sp_cuda_queue *q, uint64_t stream);
int sp_cuda_order_stream(struct sp_cuda_queue *q, uint64_t stream);
/* Is this memory of the device, by whomever it was allocated? 1, 0 or -errno. */
int sp_cuda_owns(struct sp_cuda *dev, uint64_t address);

int sp_cuda_check(const struct sp_cuda *dev, const void *records, size_t nbytes);

int64_t sp_cuda_launch(void *queue, const void *record, size_t nbytes, uint64_t epoch);
int64_t sp_cuda_run(struct sp_prepared *p);
int64_t sp_cuda_submit(void *queue, const void *records, size_t nbytes, uint64_t epoch);
/* The data is staged before this returns. */
int64_t sp_cuda_upload(struct sp_cuda_queue *q, uint64_t address, const void *data, uint64_t nbytes);
/* The bytes are in `data` when the value is reached. */
int64_t sp_cuda_download(struct sp_cuda_queue *q, uint64_t address, void *data, uint64_t nbytes);
/* Does `dev` read memory of `peer` by itself? 1 or 0. */
int sp_cuda_reaches(struct sp_cuda *dev, struct sp_cuda *peer);
/* From `src` of `peer` to `dst` of the queue's device. */
int64_t sp_cuda_copy_peer(struct sp_cuda_queue *q, uint64_t dst, struct sp_cuda *peer, uint64_t src, uint64_t nbytes);

uint64_t sp_cuda_reached(void *queue);
int sp_cuda_wait(void *queue, uint64_t value, uint64_t timeout_ns);
/* Words about a submission that failed; "" when there are none. Returns their bytes. */
size_t sp_cuda_fault(struct sp_cuda_queue *q, uint64_t value, char *out, size_t capacity);
int64_t sp_cuda_peek(struct sp_cuda_queue *q, uint64_t value, void *records, size_t capacity, struct sp_progress *out);

/* How lists of commands went to the driver since the device was opened. */
struct sp_cuda_counts {
    uint64_t replayed;      /* call by call */
    uint64_t graph_builds;
    uint64_t graph_launches;
    uint64_t graph_updates; /* kernel nodes that got new arguments */
};
void sp_cuda_counts(const struct sp_cuda *dev, struct sp_cuda_counts *out);
/* Dispatches, copies and fills that a list must have at least to become a graph when it is submitted again; returns what
 * it was. 0 leaves it as it is. */
uint32_t sp_cuda_graph_nodes(struct sp_cuda *dev, uint32_t least);
#endif
