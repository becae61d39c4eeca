/* AMD GPUs through the kernel's DRM interface alone, behind `struct sp_kmd_ops`: the same code on a card and on the emulated
 * one. Packets are made from declarations: the fixed ones come ready from Python (struct sp_amdgpu_setup and
 * sp_amdgpu_template), the rest from native/gen.
 *
 * A queue has a context of its own, and of that the entity for compute and the one for copies (SDMA), one timeline over
 * both; a submission is one CS ioctl (several when it is long or waits for others in its
 * middle), and its completion eight bytes that the kernel writes. Functions are declared as those of sp_cpu.h where they
 * mean the same. */
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

/* What a render node says of itself; asked once. */
struct sp_amdgpu_facts {
    char driver[32]; /* VERSION's name; facts of another driver than "amdgpu" end here */
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
/* 0, -EXDEV when another driver is behind the node, or what the ioctl named in `call` returned. */
int sp_amdgpu_facts(const struct sp_kmd_ops *ops, int fd, struct sp_amdgpu_facts *out, char *call, size_t nbytes);
/* open() of a render node, as a plain call: the descriptor or -errno. */
int sp_amdgpu_open_node(const char *path);

enum sp_amdgpu_sizes {
    SP_AMDGPU_PACKETS = 96, SP_AMDGPU_HIDDEN = 16, SP_AMDGPU_COPIES = 4,
    SP_AMDGPU_SCRATCH_MOST = 1 << 30 /* bytes of scratch for one group in each shader engine */
};

/* Dwords to be copied into IBs. `va_at` and `value_at` name dwords (0: none) that get an address, low and high, or a
 * number. */
struct sp_amdgpu_packets {
    uint32_t ndw;
    uint32_t dwords[96];
    uint32_t va_at[2];
    uint32_t value_at[2];
};

struct sp_amdgpu_setup {
    uint32_t gfx;                     /* 10 or 11 */
    uint32_t engines;                 /* shader engines */
    uint32_t cus;                     /* all together */
    uint64_t va_begin;                /* addresses that may be given out; from DEV_INFO */
    uint64_t va_end;
    uint64_t va_align;
    uint32_t counter_khz;             /* of the GPU clock; 0: not known, and nothing is timed */
    uint32_t on_board;                /* VRAM is memory of a card, not a part of the host's */
    uint64_t job_threads;             /* a kernel's grids are cut into jobs of so many threads at first; 0: never */
    uint64_t job_ns;                  /* and then so that a job takes about so long; 0: as at first for ever */
    uint64_t measured_threads;        /* jobs of fewer threads, unless they were cut so, are not measured */
    uint64_t vram_nbytes;
    uint64_t visible_nbytes;
    uint64_t gtt_nbytes;
    struct sp_amdgpu_packets begin;   /* these three for the ring for compute: first in every IB */
    struct sp_amdgpu_packets between; /* after it, what follows sees everything before it */
    struct sp_amdgpu_packets idle;    /* last in every IB but for padding */
    uint32_t dma;                     /* there is a ring for copies (SDMA), and the kernel flushes caches before its IBs */
    uint32_t pad;                     /* one-dword NOP */
};
/* `fd` becomes the device's own, also when this fails. */
int sp_amdgpu_open(const struct sp_kmd_ops *ops, int fd, const struct sp_amdgpu_setup *setup, struct sp_amdgpu **out);
/* Lets go of the device; the node is closed when its last queue, kernel and memory have gone. */
void sp_amdgpu_close(struct sp_amdgpu *dev);

struct sp_amdgpu_counts {
    uint64_t submissions;
    uint64_t jobs; /* CS ioctls */
    uint64_t dma_jobs; /* of these, for the ring for copies */
    uint64_t ioctls;
    uint64_t ib_ndw;
    uint64_t dispatches;
    uint64_t displaced; /* memory that is not in the heap where it was to be */
    uint64_t code_vram_nbytes; /* code that was put into VRAM, ... */
    uint64_t code_gtt_nbytes;  /* ... and into GTT */
    uint64_t staged_nbytes; /* downloads that the GPU has copied to where the CPU reads fast, ... */
    uint64_t direct_nbytes; /* ... and those that the CPU has read by itself */
};
void sp_amdgpu_counts(struct sp_amdgpu *dev, struct sp_amdgpu_counts *out);
/* INFO with an answer of `nbytes` bytes; `type` of the sensor or IP, else 0. */
int sp_amdgpu_info(struct sp_amdgpu *dev, uint32_t query, uint32_t type, void *out, uint32_t nbytes);
/* Why the device was lost; 0 when it was not. */
int sp_amdgpu_lost(struct sp_amdgpu *dev, char *why, size_t nbytes);
/* What is known of how the last call of this thread failed, beyond its -errno; told once. "": nothing. */
void sp_amdgpu_said(char *out, size_t nbytes);

/* Memory. DEVICE is VRAM, on an APU with little of it GTT; HOST is GTT, SHARED GTT that can be exported. CODE can be executed, and
 * written by the GPU if DATA: VRAM of a card, where the CPU can write it there. IBS are GTT that can be executed, WORDS GTT that CPU
 * and GPU write by turns: no cache of the GPU holds either. ARGS is what kernels read of their arguments: VRAM of a card all of
 * which the CPU reaches. What finds no room goes to the other heap. */
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
/* SHARED and imported memory and host memory in place is named to the kernel by the submissions that touch it, and only by
 * those: whose copies, fills or 64-bit arguments have an address in it. A kernel that finds its address in memory must get
 * it as an argument too, which it need not use; else the kernel may have moved the memory, or never looked at its pages. */
/* Zeroed. -ENOMEM. */
int sp_amdgpu_alloc(struct sp_amdgpu *dev, uint64_t nbytes, uint32_t kind, struct sp_amdgpu_memory **out);
/* Host memory in place; the caller keeps it. -EFAULT, here and at each submission that touches it: its pages are gone. */
int sp_amdgpu_wrap(struct sp_amdgpu *dev, void *pointer, uint64_t nbytes, int readonly, struct sp_amdgpu_memory **out);
int sp_amdgpu_import(struct sp_amdgpu *dev, int fd, uint64_t nbytes, struct sp_amdgpu_memory **out);
/* A new descriptor, or -errno; -EPERM for memory that is not SHARED. */
int sp_amdgpu_export(struct sp_amdgpu_memory *m);
uint64_t sp_amdgpu_address(const struct sp_amdgpu_memory *m);
/* Is it in another heap than it was to be, for want of room? */
int sp_amdgpu_displaced(const struct sp_amdgpu_memory *m);
/* The memory in this process, for as long as it is held. -EOPNOTSUPP: the CPU cannot reach it. */
int sp_amdgpu_map(struct sp_amdgpu_memory *m, void **out);
/* The same for somebody who may write there at any time until the view is given back: it holds the memory, and each submission
 * begins with an empty L2 meanwhile. */
int sp_amdgpu_view(struct sp_amdgpu_memory *m, void **out);
void sp_amdgpu_unview(struct sp_amdgpu_memory *m);
void sp_amdgpu_hold(struct sp_amdgpu_memory *m);
void sp_amdgpu_free(struct sp_amdgpu_memory *m);

/* What a compiled kernel wants in the kernarg segment besides its arguments. */
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

/* Packed arguments to where the kernel wants them. */
struct sp_amdgpu_argument_copy {
    uint32_t source;
    uint32_t target;
    uint32_t nbytes;
};

/* One dispatch, and where in its dwords numbers go; 0: nowhere. */
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
    uint32_t dims_at;             /* X, Y, Z, initiator */
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
/* How many threads a job of it gets now. */
uint64_t sp_amdgpu_job_threads(const struct sp_amdgpu_kernel *k);
/* What it was loaded with; -EINVAL for what is no kernel. */
int sp_amdgpu_template_of(const struct sp_amdgpu_kernel *k, struct sp_amdgpu_template *out);

/* -EOPNOTSUPP: SP_QUEUE_TIMING without a clock. */
int sp_amdgpu_queue_open(struct sp_amdgpu *dev, uint32_t flags, struct sp_amdgpu_queue **out);
int sp_amdgpu_queue_close(struct sp_amdgpu_queue *q, uint64_t timeout_ns);

/* -EINVAL a shape or record that makes no sense, -E2BIG more local memory than there is, or more scratch than SP_AMDGPU_SCRATCH_MOST, -EOPNOTSUPP a timestamp without a
 * clock; sp_signature_check's. */
int sp_amdgpu_check(const struct sp_amdgpu *dev, const void *records, size_t nbytes);
/* No submission waits for long: after 0.1 s without room for another job, launch, run, submit and the transfers return
 * -EAGAIN if nothing of it is on its way (to be tried again), and -SP_AMDGPU_BEGUN - value if some of it is. Nothing else
 * gets into the queue then before it is through; whoever waits for a value sends more of it, and so does hand_over. */
enum sp_amdgpu_begun { SP_AMDGPU_BEGUN = 4096 }; /* beyond all errors */
int64_t sp_amdgpu_launch(void *queue, const void *record, size_t nbytes, uint64_t epoch);
int64_t sp_amdgpu_run(struct sp_prepared *p);
int64_t sp_amdgpu_submit(void *queue, const void *records, size_t nbytes, uint64_t epoch);
int64_t sp_amdgpu_resend(void *queue, const void *records, size_t nbytes, uint64_t epoch);
/* Host memory in (copied before the call returns) and out (`data` must live until the value is reached). */
int64_t sp_amdgpu_upload(struct sp_amdgpu_queue *q, uint64_t address, const void *data, uint64_t nbytes);
int64_t sp_amdgpu_download(struct sp_amdgpu_queue *q, uint64_t address, void *data, uint64_t nbytes);
/* The way from the device of `reader`, a queue that does nothing else, to device `here`; -ENOMEM. The link holds
 * 16 MiB of GTT until it is closed. Copies that are on their way keep it past its close. */
int sp_amdgpu_link_open(struct sp_amdgpu *here, struct sp_amdgpu_queue *reader, struct sp_amdgpu_link **out);
void sp_amdgpu_link_close(struct sp_amdgpu_link *link);
/* A copy from the other end of a link, which waits for nothing but room in either queue. It keeps the memory of both ends until
 * it has ended, whoever frees it before. -EFAULT: there is none; -EINVAL: the link leads elsewhere. A copy that the other
 * device fails ends with -EIO. */
int64_t sp_amdgpu_copy_peer(struct sp_amdgpu_queue *q, uint64_t dst, struct sp_amdgpu_link *link, uint64_t src, uint64_t nbytes);
/* The IB that `records` become if submitted next: its dwords, or -errno. For tests of what fits into one job. */
int64_t sp_amdgpu_encode(struct sp_amdgpu_queue *q, const void *records, size_t nbytes, uint32_t *out, size_t capacity);

uint64_t sp_amdgpu_reached(void *queue);
/* 0 reached, -ETIMEDOUT, or how that submission ended: -EIO a fault (sp_amdgpu_fault has the words), -ECANCELED
 * another's fault, -ENODEV the device is lost. */
int sp_amdgpu_wait(void *queue, uint64_t value, uint64_t timeout_ns);
/* Sends the rest of a submission that has been begun, without waiting for its end: 0 nothing of it is left (it may have
 * failed, of which nobody is told by this), -EAGAIN more of it was sent in that time, -ETIMEDOUT none was; as wait, -EINVAL
 * and -ECHILD. */
int sp_amdgpu_hand_over(struct sp_amdgpu_queue *q, uint64_t value, uint64_t timeout_ns);
size_t sp_amdgpu_fault(struct sp_amdgpu_queue *q, uint64_t value, char *out, size_t capacity);
int64_t sp_amdgpu_peek(struct sp_amdgpu_queue *q, uint64_t value, void *records, size_t capacity,
                       struct sp_progress *out);

/* The allocator of GPU addresses, for tests. First fit; sizes and alignments in bytes. */
struct sp_va;
int sp_va_open(uint64_t begin, uint64_t end, uint64_t page, struct sp_va **out);
void sp_va_close(struct sp_va *va);
/* 0, -ENOMEM no room, -EINVAL. */
int sp_va_take(struct sp_va *va, uint64_t nbytes, uint64_t align, uint64_t *out);
/* 0, or -EINVAL when that was not taken just so. */
int sp_va_give(struct sp_va *va, uint64_t at, uint64_t nbytes);
#endif
