/* AMD GPUs through the kernel's DRM interface alone, behind `struct sp_kmd_ops`: the same code
 * drives a card and the emulated card. The fixed packets come ready from Python (struct
 * sp_amdgpu_setup and sp_amdgpu_template). The other packets are made from the declarations in
 * native/gen.
 *
 * Each queue has its own kernel context with two entities: one for compute, one for copies (SDMA).
 * Both share one timeline. A submission is one CS ioctl; a long one, or one that waits in its
 * middle, takes several. Completion is eight bytes that the kernel writes. Functions that sp_cpu.h
 * documents mean the same here. */
#ifndef SP_AMDGPU_H
#define SP_AMDGPU_H
#include "sp_amdgpu_drm.h"
#include "sp_cmd.h"
#include "sp_kmd.h"
#include "sp_queue.h"

struct sp_amdgpu;
struct sp_amdgpu_memory;
struct sp_amdgpu_kernel;
struct sp_amdgpu_queue;
struct sp_amdgpu_link;

/* Facts that a render node reports; asked once, when the device is opened. */
struct sp_amdgpu_facts {
    char driver[32]; /* VERSION's name; the facts end here if it is not "amdgpu" */
    int32_t major;
    int32_t minor;
    int32_t patch;
    uint32_t accel_working;
    uint32_t timeline; /* DRM_CAP_SYNCOBJ_TIMELINE */
    uint32_t prime;    /* DRM_PRIME_CAP_... */
    uint32_t me_feature; /* the ME firmware's feature number */
    uint32_t mec_version;
    uint64_t me_version;
    struct drm_amdgpu_info_device device;
    struct drm_amdgpu_memory_info memory;
    struct drm_amdgpu_info_hw_ip gfx;
    struct drm_amdgpu_info_hw_ip compute;
    struct drm_amdgpu_info_hw_ip dma;
};
/* 0; -EXDEV: another driver is behind the node; or the error of the ioctl named in `call`. */
int sp_amdgpu_facts(const struct sp_kmd_ops *ops, int fd, struct sp_amdgpu_facts *out, char *call, size_t nbytes);
/* open() of a render node, as a plain call: the descriptor or -errno. */
int sp_amdgpu_open_node(const char *path);

enum sp_amdgpu_sizes {
    SP_AMDGPU_PACKETS = 96, SP_AMDGPU_HIDDEN = 16, SP_AMDGPU_COPIES = 4,
    SP_AMDGPU_SCRATCH_MOST = 1 << 30 /* bytes of scratch for one group in each shader engine */
};

/* Dwords that are copied into IBs. `va_at` is the index of a dword that gets an address, low and
 * high half. `value_at` is the index of a dword that gets a number. 0: there is no such dword. */
struct sp_amdgpu_packets {
    uint32_t ndw;
    uint32_t dwords[96];
    uint32_t va_at[2];
    uint32_t value_at[2];
};

struct sp_amdgpu_setup {
    uint32_t gfx;                     /* 10 or 11 */
    uint32_t engines;                 /* shader engines */
    uint32_t cus;                     /* in the whole GPU */
    uint64_t va_begin;                /* range of addresses to allocate from; from DEV_INFO */
    uint64_t va_end;
    uint64_t va_align;
    uint32_t counter_khz;             /* of the GPU clock; 0: unknown, so nothing can be timed */
    uint32_t on_board;                /* VRAM is on the card, not a part of the host's memory */
    uint64_t job_threads;             /* first size of the jobs that a grid is cut into; 0: never cut */
    uint64_t job_ns;                  /* duration that the job size then aims at; 0: keep the first size */
    /* jobs of fewer threads are not measured, unless they were cut to that size */
    uint64_t measured_threads;
    uint64_t vram_nbytes;
    uint64_t visible_nbytes;
    uint64_t gtt_nbytes;
    struct sp_amdgpu_packets begin;   /* packets for the compute ring: first in every IB */
    struct sp_amdgpu_packets between; /* barrier: what follows sees all earlier writes */
    struct sp_amdgpu_packets idle;    /* last in every IB, before the padding */
    uint32_t dma;                     /* a copy ring (SDMA) exists, and the kernel flushes caches before its IBs */
    uint32_t pad;                     /* one-dword NOP */
};
/* The device owns `fd` from now on, also when the call fails. */
int sp_amdgpu_open(const struct sp_kmd_ops *ops, int fd, const struct sp_amdgpu_setup *setup, struct sp_amdgpu **out);
/* Releases the device. The node is closed after its last queue, kernel and memory are released. */
void sp_amdgpu_close(struct sp_amdgpu *dev);

struct sp_amdgpu_counts {
    uint64_t submissions;
    uint64_t jobs; /* CS ioctls */
    uint64_t dma_jobs; /* CS ioctls for the copy ring */
    uint64_t ioctls;
    uint64_t ib_ndw;
    uint64_t dispatches;
    uint64_t displaced; /* BOs outside their preferred heap */
    uint64_t code_vram_nbytes; /* bytes of code placed in VRAM */
    uint64_t code_gtt_nbytes;  /* bytes of code placed in GTT */
    uint64_t staged_nbytes; /* bytes that the GPU copied to GTT, which the CPU reads fast */
    uint64_t direct_nbytes; /* bytes that the CPU read directly */
};
void sp_amdgpu_counts(struct sp_amdgpu *dev, struct sp_amdgpu_counts *out);
/* The INFO ioctl; the answer has `nbytes` bytes. `type`: the sensor or IP, else 0. */
int sp_amdgpu_info(struct sp_amdgpu *dev, uint32_t query, uint32_t type, void *out, uint32_t nbytes);
/* Writes into `why` the reason why the device was lost. Returns 0 if it was not lost. */
int sp_amdgpu_lost(struct sp_amdgpu *dev, char *why, size_t nbytes);
/* Copies details of this thread's last failure, beyond its -errno, and clears them. "": no
 * details. */
void sp_amdgpu_said(char *out, size_t nbytes);

/* Kinds of memory.
 *
 * DEVICE: VRAM; on an APU with little VRAM, GTT.
 * HOST: GTT. SHARED: GTT that can be exported.
 * CODE: executable; the GPU writes it if DATA. In VRAM of a card, if the CPU can write it there.
 * IBS: executable GTT. WORDS: GTT that CPU and GPU write by turns. No cache of the GPU holds
 * either.
 * ARGS: kernel arguments; in VRAM of a card whose VRAM the CPU reaches entirely.
 *
 * If the preferred heap is full, the memory comes from the other one. */
enum sp_amdgpu_kind {
    SP_AMDGPU_DEVICE = 0,
    SP_AMDGPU_HOST = 1,
    SP_AMDGPU_SHARED = 2,
    SP_AMDGPU_CODE = 3,
    SP_AMDGPU_CODE_AND_DATA = 4,
    SP_AMDGPU_IBS = 5,
    SP_AMDGPU_ARGS = 6,
    SP_AMDGPU_WORDS = 7
};
/* A submission lists SHARED, imported and wrapped memory only if its copies, fills or 64-bit
 * arguments contain an address in that memory. A kernel that loads such an address from memory must
 * therefore get it as an argument too. Otherwise the kernel driver may have moved the memory, or
 * may not have pinned its pages. */
/* Zeroed. -ENOMEM. */
int sp_amdgpu_alloc(struct sp_amdgpu *dev, uint64_t nbytes, uint32_t kind, struct sp_amdgpu_memory **out);
/* Wraps host memory in place; the caller keeps it alive. -EFAULT, here and at each submission that
 * touches it: the pages no longer exist. */
int sp_amdgpu_wrap(struct sp_amdgpu *dev, void *pointer, uint64_t nbytes, int readonly, struct sp_amdgpu_memory **out);
int sp_amdgpu_import(struct sp_amdgpu *dev, int fd, uint64_t nbytes, struct sp_amdgpu_memory **out);
/* Returns a new descriptor. -EPERM: the memory is not SHARED. */
int sp_amdgpu_export(struct sp_amdgpu_memory *m);
uint64_t sp_amdgpu_address(const struct sp_amdgpu_memory *m);
/* 1 if the preferred heap was full and the memory is in another one, else 0. */
int sp_amdgpu_displaced(const struct sp_amdgpu_memory *m);
/* Address of the memory in this process, valid while it is held. -EOPNOTSUPP: the CPU cannot reach
 * it. */
int sp_amdgpu_map(struct sp_amdgpu_memory *m, void **out);
/* As sp_amdgpu_map, for a caller that may write at any time until it releases the view. The view
 * holds the memory. While a view exists, each submission begins with an empty L2. */
int sp_amdgpu_view(struct sp_amdgpu_memory *m, void **out);
void sp_amdgpu_unview(struct sp_amdgpu_memory *m);
void sp_amdgpu_hold(struct sp_amdgpu_memory *m);
void sp_amdgpu_free(struct sp_amdgpu_memory *m);

/* Entries that a compiled kernel expects in the kernarg segment besides its arguments. */
enum sp_amdgpu_hidden_kind {
    SP_AMDGPU_BLOCK_COUNT_X = 1, SP_AMDGPU_BLOCK_COUNT_Y, SP_AMDGPU_BLOCK_COUNT_Z,
    SP_AMDGPU_GROUP_SIZE_X, SP_AMDGPU_GROUP_SIZE_Y, SP_AMDGPU_GROUP_SIZE_Z,
    SP_AMDGPU_GRID_DIMS, SP_AMDGPU_DYNAMIC_LDS
};
struct sp_amdgpu_hidden {
    uint32_t kind;
    uint32_t offset;
    uint32_t nbytes;
};

/* Copies packed arguments to the offsets that the kernel expects. */
struct sp_amdgpu_argument_copy {
    uint32_t source;
    uint32_t target;
    uint32_t nbytes;
};

/* Packets of one dispatch, and the dwords that are patched per launch. 0: the dispatch has no such
 * dword. */
struct sp_amdgpu_template {
    char name[64];
    uint32_t ndw;
    uint32_t dwords[96];
    uint32_t rsrc2_at;
    uint32_t tmpring_at;
    uint32_t scratch_base_at;     /* SCRATCH_BASE_LO, HI: address >> 8 */
    uint32_t scratch_resource_at; /* words 0 and 1 of a buffer resource */
    uint32_t scratch_address_at;  /* 64 bits of address */
    uint32_t start_at;            /* START_X..Z, NUM_THREAD_X..Z */
    uint32_t kernarg_at;
    uint32_t dims_at;             /* x, y, z, initiator */
    uint32_t max_threads;
    uint32_t required_size[3];    /* 0: any */
    uint32_t lds_nbytes;
    uint32_t kernarg_nbytes;
    uint32_t kernarg_align;
    uint32_t dynamic_lds_at;      /* offset + 1 of a __local pointer argument; 0: none */
    uint32_t dynamic_lds_align;
    uint32_t scratch_wave_nbytes;
    uint32_t ncopies;
    struct sp_amdgpu_argument_copy copies[4];
    uint32_t nhidden;
    struct sp_amdgpu_hidden hidden[16];
};
int sp_amdgpu_load(struct sp_amdgpu *dev, const struct sp_amdgpu_template *template_, const struct sp_signature *sig,
                   struct sp_amdgpu_memory *code, struct sp_amdgpu_kernel **out);
void sp_amdgpu_unload(struct sp_amdgpu_kernel *k);
/* Threads per job that the kernel's grids are cut into now. */
uint64_t sp_amdgpu_job_threads(const struct sp_amdgpu_kernel *k);
/* The template that the kernel was loaded with. -EINVAL: not a kernel. */
int sp_amdgpu_template_of(const struct sp_amdgpu_kernel *k, struct sp_amdgpu_template *out);

/* -EOPNOTSUPP: SP_QUEUE_TIMING without a clock. */
int sp_amdgpu_queue_open(struct sp_amdgpu *dev, uint32_t flags, struct sp_amdgpu_queue **out);
int sp_amdgpu_queue_close(struct sp_amdgpu_queue *q, uint64_t timeout_ns);

/* -EINVAL: a malformed shape or record. -E2BIG: too much local memory, or more scratch than
 * SP_AMDGPU_SCRATCH_MOST. -EOPNOTSUPP: a timestamp without a clock. Or an error of
 * sp_signature_check. */
int sp_amdgpu_check(const struct sp_amdgpu *dev, const void *records, size_t nbytes);
/* No submission blocks for long: it waits 0.1 s for room for another job. Then launch, run, submit
 * and the transfers return -EAGAIN if no job was sent: the caller tries again. They return
 * -SP_AMDGPU_BEGUN - value if some jobs were sent. The queue then takes no other work until the
 * rest is sent. A thread that waits for a value sends more of it, and so does hand_over. */
enum sp_amdgpu_begun { SP_AMDGPU_BEGUN = 4096 }; /* larger than any errno */
int64_t sp_amdgpu_launch(void *queue, const void *record, size_t nbytes, uint64_t epoch);
int64_t sp_amdgpu_run(struct sp_prepared *p);
int64_t sp_amdgpu_submit(void *queue, const void *records, size_t nbytes, uint64_t epoch);
int64_t sp_amdgpu_resend(void *queue, const void *records, size_t nbytes, uint64_t epoch);
/* Host to device (copied before the call returns) and device to host (`data` must live until the
 * value is reached). */
int64_t sp_amdgpu_upload(struct sp_amdgpu_queue *q, uint64_t address, const void *data, uint64_t nbytes);
int64_t sp_amdgpu_download(struct sp_amdgpu_queue *q, uint64_t address, void *data, uint64_t nbytes);
/* Opens a link from the device of `reader` to device `here`. `reader` must be a queue that does
 * nothing else. The link holds 16 MiB of GTT until it is closed. Copies in flight keep it alive
 * after its close. -ENOMEM. */
int sp_amdgpu_link_open(struct sp_amdgpu *here, struct sp_amdgpu_queue *reader, struct sp_amdgpu_link **out);
void sp_amdgpu_link_close(struct sp_amdgpu_link *link);
/* Copies from the other end of a link; waits only for room in either queue. It holds the memory of
 * both ends until the copy has ended. -EFAULT: no memory at that address. -EINVAL: the link leads
 * to another device. The copy ends with -EIO if the other device fails it. */
int64_t sp_amdgpu_copy_peer(struct sp_amdgpu_queue *q, uint64_t dst, struct sp_amdgpu_link *link, uint64_t src, uint64_t nbytes);
/* Encodes `records` as the next submission would, without submitting. Returns the dwords of the IB
 * or -errno. For tests of what fits into one job. */
int64_t sp_amdgpu_encode(struct sp_amdgpu_queue *q, const void *records, size_t nbytes, uint32_t *out, size_t capacity);

uint64_t sp_amdgpu_reached(void *queue);
/* 0: reached. -ETIMEDOUT. Else the error of that submission: -EIO a fault (details:
 * sp_amdgpu_fault), -ECANCELED the fault of another submission, -ENODEV the device is lost. */
int sp_amdgpu_wait(void *queue, uint64_t value, uint64_t timeout_ns);
/* Sends the rest of a submission that was begun, without waiting for its end. 0: everything was
 * sent (its own failure is not reported here). -EAGAIN: some jobs were sent in that time.
 * -ETIMEDOUT: none was. -EINVAL, -ECHILD: as wait. */
int sp_amdgpu_hand_over(struct sp_amdgpu_queue *q, uint64_t value, uint64_t timeout_ns);
size_t sp_amdgpu_fault(struct sp_amdgpu_queue *q, uint64_t value, char *out, size_t capacity);
int64_t sp_amdgpu_peek(struct sp_amdgpu_queue *q, uint64_t value, void *records, size_t capacity,
                       struct sp_progress *out);

/* The allocator of GPU addresses, exported for tests. First fit; sizes and alignments in bytes. */
struct sp_va;
int sp_va_open(uint64_t begin, uint64_t end, uint64_t page, struct sp_va **out);
void sp_va_close(struct sp_va *va);
/* 0; -ENOMEM: no room; -EINVAL. */
int sp_va_take(struct sp_va *va, uint64_t nbytes, uint64_t align, uint64_t *out);
/* 0; -EINVAL: no allocation has exactly this address and size. */
int sp_va_give(struct sp_va *va, uint64_t at, uint64_t nbytes);
#endif
