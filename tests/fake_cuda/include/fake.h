/* What the files of the fake driver share: its objects, and how a call begins.
 *
 *   calls (device.c context.c ... graph.c)   check arguments, make a struct fk_op
 *   ring.c                                   rings of ops, a thread a stream, tickets, the ticker
 *   ops: copy.c launch.c event.c ...         what the stream's thread does
 *   heap.c ptx.c ../kernels/                 memory, images, the kernels themselves
 */
#ifndef FAKE_CUDA_FAKE_H
#define FAKE_CUDA_FAKE_H
#include "abi.h"
#include "api.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#define FK_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define FK_HIDDEN __attribute__((visibility("hidden")))
#pragma GCC visibility push(hidden)

struct fk_context;
struct fk_pool;
struct fk_stream;

/* ---- calls: proc.c, inject.c ---- */
enum fk_call_id {
#define FK_SYM(name, base, since) FK_##name,
#include "symbols.def"
#undef FK_SYM
    FK_CALLS
};
struct fk_call {
    const char *name;
    const char *base;  /* what cuGetProcAddress knows it by */
    int since;         /* CUDA version, 1000 * major + 10 * minor */
    void *address;
    _Atomic uint64_t count;
    _Atomic bool armed; /* any of what follows */
    int result;
    int64_t after; /* calls to let pass first */
    int64_t times; /* then this many fail; < 0: all */
    int64_t delay_us;
    bool missing;
};
extern struct fk_call fk_calls[FK_CALLS];
extern _Atomic int fk_trouble; /* not 0: what every call returns, cuInit aside: not initialised, or forked */
extern _Atomic bool fk_forked;
extern _Atomic int fk_captures; /* that go on */
int fk_armed(struct fk_call *call);
int fk_capture_allows(enum fk_call_id id); /* 0, or CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED */
struct fk_call *fk_call_named(const char *name);
int fk_control_line(const char *command, int64_t *value);

static inline int fk_enter(enum fk_call_id id, bool needs_init)
{
    struct fk_call *const call = &fk_calls[id];
    atomic_fetch_add_explicit(&call->count, 1, memory_order_relaxed);
    if (needs_init && FK_UNLIKELY(atomic_load_explicit(&fk_trouble, memory_order_relaxed)))
        return fk_trouble;
    const int rc = FK_UNLIKELY(atomic_load_explicit(&call->armed, memory_order_relaxed)) ? fk_armed(call) : 0;
    if (FK_UNLIKELY(atomic_load_explicit(&fk_captures, memory_order_relaxed)) && rc == 0)
        return fk_capture_allows(id);
    return rc;
}
#define FK_ENTER(name)                                                                                                 \
    do {                                                                                                               \
        const int fk_rc_ = fk_enter(FK_##name, true);                                                                  \
        if (fk_rc_ != 0)                                                                                               \
            return fk_rc_;                                                                                             \
    } while (0)
#define FK_ENTER_ANYTIME(name)                                                                                         \
    do {                                                                                                               \
        const int fk_rc_ = fk_enter(FK_##name, false);                                                                 \
        if (fk_rc_ != 0)                                                                                               \
            return fk_rc_;                                                                                             \
    } while (0)
/* As FK_ENTER; then `ctx` is the current context, alive and without a sticky error. */
#define FK_ENTER_CONTEXT(name)                                                                                         \
    FK_ENTER(name);                                                                                                    \
    struct fk_context *const ctx = fk_current;                                                                         \
    do {                                                                                                               \
        if (FK_UNLIKELY(!fk_usable(ctx)))                                                                              \
            return fk_unusable(ctx);                                                                                   \
    } while (0)

/* ---- handles: handle.c. A handle is never used twice, so a stale one is always recognised. ---- */
enum fk_kind { FK_CONTEXT = 1, FK_STREAM, FK_EVENT, FK_MODULE, FK_FUNCTION, FK_POOL, FK_GRAPH, FK_NODE, FK_EXEC,
               FK_LIBRARY, FK_KINDS };
struct fk_slot {
    uint64_t kind;
    void *object;
};
enum { FK_SLOTS = 1 << 24 };
extern struct fk_slot *fk_slots;
extern _Atomic int64_t fk_live[FK_KINDS];
void *fk_handle_new(enum fk_kind kind, void *object); /* NULL: none left */
void fk_handle_free(void *handle);
static inline void *fk_object(const void *handle, enum fk_kind kind)
{
    const uintptr_t offset = (uintptr_t)handle - (uintptr_t)fk_slots;
    if (offset >= sizeof(struct fk_slot) * FK_SLOTS || offset % sizeof(struct fk_slot) != 0)
        return NULL;
    const struct fk_slot *const slot = &fk_slots[offset / sizeof(struct fk_slot)];
    return slot->kind == (uint64_t)kind ? slot->object : NULL;
}

/* ---- devices and contexts ---- */
enum { FK_MAX_DEVICES = 16 };
/* What can be busy on a device: time is modelled for each (model.c). */
enum fk_engine { FK_NO_ENGINE, FK_COMPUTE, FK_H2D, FK_D2H, FK_D2D, FK_PEER, FK_ENGINES };

struct fk_device {
    int ordinal;
    int card; /* which one it is of the machine: CUDA_VISIBLE_DEVICES changes the order, not that */
    struct fk_context *primary;
    int retained; /* the primary context; a reset does not change that */
    struct fk_pool *default_pool;
    struct fk_pool *pool; /* what cuMemAllocAsync takes from */
    uint64_t used;        /* bytes, pools' reserves included; under the heap's lock */
    _Atomic int64_t busy_until[FK_ENGINES]; /* ns */
};
/* Where a sticky error ends: with its context; the same, but the reset that ends it returns it; not within this process. */
enum fk_sticky { FK_STICKY_CONTEXT, FK_STICKY_RESET, FK_STICKY_PROCESS };
/* Set by fake_cuda_control before cuInit. */
struct fk_settings {
    int devices;
    uint64_t memory;
    int major, minor;
    int driver;
    int peer;           /* can devices reach each other? */
    uint32_t apart[FK_MAX_DEVICES]; /* bit n: this device and device n cannot */
    enum fk_sticky sticky;
    char name[96];
};
extern struct fk_settings fk_settings;
extern struct fk_device fk_devices[FK_MAX_DEVICES];
struct fk_device *fk_device_of(CUdevice device); /* NULL: no such device */
static inline bool fk_reach(int a, int b)
{
    return fk_settings.peer && a != b && !(fk_settings.apart[a] >> b & 1);
}
int fk_device_attribute(const struct fk_device *device, int attribute, int *value);

struct fk_context {
    CUcontext handle;
    struct fk_device *device;
    struct fk_stream *legacy;
    struct fk_stream *streams; /* alive ones, by ->sibling; under lock */
    pthread_mutex_t lock;
    _Atomic int sticky;
    _Atomic bool alive;
    _Atomic bool dying; /* what would wait for ever gives up */
    bool primary;
    unsigned flags;
    uint32_t peers; /* bit n: memory of device n may be touched */
    size_t limits[16];
};
extern _Thread_local struct fk_context *fk_current __attribute__((tls_model("initial-exec")));
static inline bool fk_usable(const struct fk_context *ctx)
{
    return ctx && atomic_load_explicit(&ctx->alive, memory_order_relaxed) &&
           atomic_load_explicit(&ctx->sticky, memory_order_relaxed) == 0;
}
int fk_unusable(const struct fk_context *ctx);
int fk_context_wait(struct fk_context *ctx); /* until all its streams are idle */
void fk_context_fail(struct fk_context *ctx, int result);

/* ---- memory: heap.c ---- */
enum fk_where { FK_DEVICE = 1, FK_PINNED, FK_REGISTERED, FK_IMPORTED };
struct fk_block {
    uint64_t address;
    uint64_t nbytes;
    uint64_t id;
    enum fk_where where;
    int ordinal; /* of the device, or where pinned memory was made */
    unsigned flags;
    struct fk_context *ctx;
    struct fk_pool *pool;
    bool freed; /* by cuMemFreeAsync, not yet executed */
};
int fk_heap_init(void);
int fk_heap_alloc(struct fk_context *ctx, struct fk_pool *pool, uint64_t nbytes, uint64_t *address);
int fk_heap_host(struct fk_context *ctx, uint64_t nbytes, unsigned flags, void **out);
int fk_heap_register(struct fk_context *ctx, void *at, uint64_t nbytes, unsigned flags);
int fk_heap_import(struct fk_context *ctx, int fd, uint64_t offset, uint64_t nbytes, uint64_t *address);
int fk_heap_free(uint64_t address, enum fk_where where);
void fk_heap_free_context(struct fk_context *ctx);
bool fk_heap_find(uint64_t address, struct fk_block *out); /* the block that `address` lies in */
bool fk_heap_mark_freed(uint64_t address);
/* Is all of [address, address + nbytes) in one live block that kernels and copies of `ctx` may touch? */
bool fk_reachable(const struct fk_context *ctx, uint64_t address, uint64_t nbytes);
/* The same without a look at who may: what the driver's own copies touch. */
bool fk_in_block(uint64_t address, uint64_t nbytes);
int64_t fk_heap_live(enum fk_where where);
int fk_heap_export(uint64_t address, int *fd, uint64_t *offset); /* what another process maps */
extern pthread_mutex_t fk_heap_lock;

struct fk_pool {
    CUmemoryPool handle;
    struct fk_device *device;
    uint64_t threshold;
    uint64_t used, used_high, reserved, reserved_high;
    uint64_t max_size;
    uint64_t flags[4];
    uint32_t access; /* bit n: device n may touch it */
};
struct fk_pool *fk_pool_new(struct fk_device *device, uint64_t max_size);
void fk_pool_sync(struct fk_device *device); /* gives back what is above the thresholds */

/* ---- streams and ops: stream.c ---- */
struct fk_op;
typedef int fk_run(struct fk_stream *stream, struct fk_op *op); /* CUresult; not 0: sticky */
struct fk_params;
struct fk_function;
enum { FK_INLINE = 128 };
struct fk_kernel_op {
    const struct fk_function *function;
    unsigned grid[3], block[3];
    unsigned shared, nbytes;
    void *far; /* arguments that do not fit in `near`: malloc'ed */
    unsigned char near[FK_INLINE] __attribute__((aligned(8)));
};
struct fk_copy_op {
    uint64_t dst, src, nbytes;
    void *staged; /* malloc'ed copy of pageable memory */
};
struct fk_fill_op {
    uint64_t dst, pitch, width, height;
    uint32_t value, size;
};
struct fk_op {
    fk_run *run;
    uint8_t engine; /* enum fk_engine */
    int64_t queued; /* ns; while time is modelled */
    union {
        struct fk_kernel_op kernel;
        struct fk_copy_op copy;
        struct fk_fill_op fill;
        struct {
            struct fk_stream *stream;
            uint64_t value;
        } wait;
        struct {
            struct fk_event *event;
            uint64_t ticket;
        } record;
        struct {
            CUhostFn fn;
            CUstreamCallback callback;
            void *data;
            CUstream stream;
        } host;
        struct {
            uint64_t address, value;
            unsigned flags, size;
        } word; /* word.c */
        struct {
            uint64_t address;
        } free;
        struct {
            struct fk_plan *plan;
        } graph;
    };
};
enum { FK_RING = 4096 };
struct fk_stream {
    CUstream handle;
    struct fk_context *ctx;
    struct fk_stream *sibling; /* in its context, or in the list of those to use again */
    struct fk_stream *next;    /* of all that ever were */
    unsigned flags;
    int priority;
    bool legacy;
    struct fk_capture *capture;
    uint64_t id;
    struct fk_op *ring;
    pthread_t thread;
    _Atomic bool started;
    pthread_mutex_t mutex; /* for the two conditions */
    pthread_cond_t work, progress;
    int64_t model_end; /* ns; the consumer's */
    /* the producer's, under `lock` */
    _Alignas(64) atomic_flag lock;
    uint64_t seen;        /* `done` when last looked at */
    uint64_t legacy_seen; /* of the legacy stream, what this one waits for already */
    _Alignas(64) _Atomic uint64_t head;
    /* the consumer's */
    _Alignas(64) _Atomic uint64_t done;
    _Atomic int sleeping;
    _Atomic int waiters;
};
int fk_stream_make(struct fk_context *ctx, unsigned flags, int priority, struct fk_stream **out);
int fk_stream_legacy(struct fk_context *ctx);
void fk_stream_retire(struct fk_stream *stream); /* its work is done or given up */
int fk_stream_of(struct fk_context *ctx, CUstream handle, struct fk_stream **out);
/* Room for one op, with the stream's lock held; fk_push publishes it and returns its ticket. While the stream captures,
 * the op becomes a node of the graph. fk_begin's NULL: *rc says why, the lock is not held. */
struct fk_op *fk_begin(struct fk_stream *stream, fk_run *run, enum fk_engine engine, int *rc);
uint64_t fk_push(struct fk_stream *stream, struct fk_op *op);
void fk_drop(struct fk_stream *stream); /* instead of fk_push: nothing is queued */
void fk_kick(struct fk_stream *stream);
static inline bool fk_reached(const struct fk_stream *stream, uint64_t value)
{
    return atomic_load_explicit(&stream->done, memory_order_acquire) >= value;
}
int fk_await(struct fk_stream *stream, uint64_t value); /* 0, or the context's sticky error */
int fk_stream_wait(struct fk_stream *stream);
int fk_run_timed(struct fk_stream *stream, struct fk_op *op, int64_t queued);
fk_run fk_run_wait, fk_run_kernel, fk_run_copy, fk_run_fill, fk_run_host, fk_run_nothing, fk_run_record;
void fk_op_drop(struct fk_op *op);                               /* frees what the op owns */
int fk_op_clone(const struct fk_op *op, struct fk_op *out);      /* 0 or CUDA_ERROR_OUT_OF_MEMORY */

/* ---- time: model.c ---- */
struct fk_model {
    _Atomic bool on;
    int64_t kernel_ns;
    double bytes_per_ns[FK_ENGINES];
    _Atomic uint64_t moved[FK_ENGINES]; /* bytes copied since the last reset */
};
extern struct fk_model fk_model;
int64_t fk_now(void); /* ns, CLOCK_MONOTONIC */
int64_t fk_modelled(struct fk_stream *stream, const struct fk_op *op, uint64_t nbytes); /* when it ends; 0: now */
void fk_sleep_until(int64_t when);

/* ---- faults that kernels meet: inject.c ---- */
int fk_kernel_fault(struct fk_stream *stream, const char *entry); /* CUresult; holds endless ones until released */

/* ---- events, graphs ---- */
struct fk_event;
void fk_events_drop_context(struct fk_context *ctx);
void fk_event_release(struct fk_event *event);
struct fk_graph;
struct fk_plan;
void fk_graph_op_drop(struct fk_op *op);
struct fk_graph *fk_graph_new(void);
void fk_graph_free(struct fk_graph *g);
int fk_graph_append(struct fk_graph *g, const struct fk_op *op); /* a copy of it: 0 or CUresult */
CUgraph fk_graph_handle(const struct fk_graph *g);

/* ---- capture.c ---- */
struct fk_capture;
int fk_capture_op(struct fk_stream *stream, struct fk_op *op);
bool fk_capture_valid(const struct fk_capture *capture);
void fk_capture_spoil(struct fk_capture *capture); /* invalid from now on; nothing if it has ended */
void fk_capture_abandon(struct fk_stream *stream); /* the stream goes */
bool fk_capture_going_on(const struct fk_capture *capture);

/* ---- images and kernels ---- */
enum { FK_MAX_PARAMS = 64 };
struct fk_params {
    unsigned count, nbytes;
    struct {
        unsigned offset, size;
    } at[FK_MAX_PARAMS];
};
struct fk_kernel;
struct fk_function {
    CUfunction handle;
    struct fk_module *module;
    struct fk_function *next;
    char *name;
    struct fk_params params;
    unsigned max_threads, shared, registers;
    unsigned max_dynamic_shared;
    const struct fk_kernel *kernel; /* NULL: no reference of ours */
};
struct fk_variable {
    struct fk_variable *next;
    char *name;
    uint64_t nbytes, address;
};
struct fk_image { /* what ptx.c and cubin.c read out of a module's image */
    struct fk_function *functions;
    struct fk_variable *variables;
    int ptx_version;    /* 10 * major + minor */
    int binary_version; /* of the target */
    char log[512];
};
struct fk_module {
    CUmodule handle;
    struct fk_context *ctx;
    struct fk_module *next;
    struct fk_image image;
    bool library;
};
int fk_ptx_read(const char *text, const struct fk_device *device, struct fk_image *out);
int fk_cubin_read(const unsigned char *bytes, const struct fk_device *device, struct fk_image *out);
void fk_modules_drop_context(struct fk_context *ctx);
/* Fills a kernel op from a launch's arguments; 0 or CUresult. */
int fk_launch_fill(struct fk_context *ctx, struct fk_kernel_op *op, CUfunction function, const unsigned grid[3],
                   const unsigned block[3], unsigned shared, void **params, void **extra);

struct fk_launch { /* what a kernel sees */
    const struct fk_context *ctx;
    const unsigned *grid;
    const unsigned *block;
    const unsigned char *args;
};
struct fk_kernel {
    const char *name;
    const char *signature; /* a letter an argument: p d are 8 bytes, f u i are 4 */
    int (*run)(const struct fk_launch *launch); /* CUresult */
    struct fk_params params; /* of the signature */
};
const struct fk_kernel *fk_kernel_named(const char *name);
void fk_kernels_init(void);

#pragma GCC visibility pop
#endif
