/* AMD GPUs through Linux's DRM interface alone, behind `struct sp_kmd_ops`. The same code
 * drives a card and the emulated card. Python provides the packets that never change (struct
 * sp_amdgpu_setup and sp_amdgpu_template). The other packets are encoded from the declarations in
 * native/gen.
 *
 * Each queue has its own context of the kernel driver, with two entities: one for compute, one for
 * copies (SDMA). Both entities share one timeline. A submission is one CS ioctl. A long submission,
 * or one with a wait in its middle, is several. The kernel driver writes eight bytes when a job has
 * completed. Functions that sp_cpu.h documents mean the same here. */
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

/* Facts that a render node reports. They are queried once, when the device is opened. */
struct sp_amdgpu_facts {
    /* name in the answer of VERSION; unless it is "amdgpu", the fields below are not set */
    char driver[32];
    int32_t major;
    int32_t minor;
    int32_t patch;
    uint32_t accel_working;
    uint32_t timeline;   /* value of DRM_CAP_SYNCOBJ_TIMELINE */
    uint32_t prime;      /* value of DRM_CAP_PRIME, bits DRM_PRIME_CAP_... */
    uint32_t me_feature; /* the ME firmware's feature number */
    uint32_t mec_version;
    uint64_t me_version;
    struct drm_amdgpu_info_device device;
    struct drm_amdgpu_memory_info memory;
    struct drm_amdgpu_info_hw_ip gfx;
    struct drm_amdgpu_info_hw_ip compute;
    struct drm_amdgpu_info_hw_ip dma;
};
/* Queries the facts of render node `fd`. Returns 0, -EXDEV if another driver is behind the node, or
 * the error of the ioctl whose name it writes to `call`. */
int sp_amdgpu_facts(const struct sp_kmd_ops *ops, int fd, struct sp_amdgpu_facts *out, char *call, size_t nbytes);
/* Opens a render node with open(2). Returns the descriptor or -errno. */
int sp_amdgpu_open_node(const char *path);

enum sp_amdgpu_sizes {
    SP_AMDGPU_PACKETS = 96, SP_AMDGPU_HIDDEN = 16, SP_AMDGPU_COPIES = 4,
    /* limit of the product of the scratch bytes of one group and the number of shader engines */
    SP_AMDGPU_SCRATCH_MOST = 1 << 30
};

/* Dwords to copy into IBs. `va_at` is the index of the low dword of an address, whose high dword
 * follows. `value_at` is the index of the dword with the number that the packet writes to that
 * address, or waits for at that address. An index of 0 means that there is no such dword. */
struct sp_amdgpu_packets {
    uint32_t ndw;
    uint32_t dwords[96];
    uint32_t va_at[2];
    uint32_t value_at[2];
};

struct sp_amdgpu_setup {
    uint32_t gfx;     /* generation: 10 or 11 */
    uint32_t engines; /* number of shader engines */
    uint32_t cus;     /* compute units of the whole GPU */
    /* va_begin, va_end, va_align: the range of GPU addresses from which memory is allocated, and
     * its alignment, as DEV_INFO reports them */
    uint64_t va_begin;
    uint64_t va_end;
    uint64_t va_align;
    /* frequency of the GPU clock in kHz; 0: unknown, so nothing can be timed */
    uint32_t counter_khz;
    uint32_t on_board; /* 1: VRAM is on the card, not a part of the host's memory */
    /* initial number of threads in each job of a grid that is cut into jobs; 0: never cut */
    uint64_t job_threads;
    /* target duration of the jobs of a grid that is cut into jobs; later jobs get the number of
     * threads that takes about this time; 0: every job has job_threads threads */
    uint64_t job_ns;
    /* The duration of a job is measured if the job has at least this number of threads, or at least
     * half of the threads that each job of a cut grid gets at present. */
    uint64_t measured_threads;
    uint64_t vram_nbytes;
    uint64_t visible_nbytes;
    uint64_t gtt_nbytes;
    struct sp_amdgpu_packets begin;   /* first packets of every IB on the compute ring */
    struct sp_amdgpu_packets between; /* barrier: later packets see all earlier writes */
    /* last packets of every IB on the compute ring, before the padding with NOPs */
    struct sp_amdgpu_packets idle;
    /* 1: a copy ring (SDMA) exists, and the kernel driver flushes caches before its IBs */
    uint32_t dma;
    uint32_t pad; /* a NOP of one dword, for padding */
};
/* Opens a device. It owns `fd` from now on, even if the call fails. Returns 0 or -errno. */
int sp_amdgpu_open(const struct sp_kmd_ops *ops, int fd, const struct sp_amdgpu_setup *setup, struct sp_amdgpu **out);
/* Releases the device. The node is closed after the last queue, kernel and memory of the device are
 * released. */
void sp_amdgpu_close(struct sp_amdgpu *dev);

struct sp_amdgpu_counts {
    uint64_t submissions;
    uint64_t jobs; /* number of CS ioctls */
    uint64_t dma_jobs; /* number of those CS ioctls that are for the copy ring (SDMA) */
    uint64_t ioctls;
    uint64_t ib_ndw;
    uint64_t dispatches;
    uint64_t displaced; /* number of BOs that are not in their preferred heap */
    uint64_t code_vram_nbytes; /* bytes of code placed in VRAM */
    uint64_t code_gtt_nbytes; /* bytes of code placed in GTT */
    /* bytes of downloads that the GPU first copied from VRAM to host memory (GTT), because the CPU
     * reads VRAM slowly */
    uint64_t staged_nbytes;
    /* bytes of downloads that the CPU read in place, without a copy by the GPU */
    uint64_t direct_nbytes;
};
void sp_amdgpu_counts(struct sp_amdgpu *dev, struct sp_amdgpu_counts *out);
/* Calls the INFO ioctl with `query`; the answer has `nbytes` bytes. `type` says which sensor, IP or
 * firmware the query is about; other queries ignore it. Returns 0 or -errno. */
int sp_amdgpu_info(struct sp_amdgpu *dev, uint32_t query, uint32_t type, void *out, uint32_t nbytes);
/* Writes the reason why the device was lost to `why`. Returns 0 if it was not lost. */
int sp_amdgpu_lost(struct sp_amdgpu *dev, char *why, size_t nbytes);
/* Copies the details of this thread's last failure to `out` and clears them. "" if there are
 * none. */
void sp_amdgpu_error_text(char *out, size_t nbytes);

/* Kinds of memory.
 *
 * DEVICE: VRAM; on an APU with little VRAM, GTT.
 * HOST: GTT. SHARED: GTT that can be exported.
 * CODE: executable memory. CODE_AND_DATA: executable memory that the GPU also writes. CODE and
 * CODE_AND_DATA are in VRAM of a card if the CPU can write to that VRAM.
 * IBS: executable GTT. WORDS: GTT that CPU and GPU write by turns. The GPU's caches hold no bytes
 * of IBS or WORDS.
 * ARGS: kernel arguments; in VRAM of a card if the CPU can reach all its VRAM.
 *
 * If the preferred heap is full, the memory comes from the other heap. */
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
/* A submission names SHARED, imported or wrapped memory in its BO list only if one of its copies,
 * fills or 64-bit arguments contains an address in that memory. So a kernel that loads such an
 * address from other memory must also get it as an argument. Otherwise the kernel driver may have
 * moved the memory, or may not have pinned its pages. */
/* Allocates zeroed memory of a kind. Returns 0 or -errno, such as -ENOMEM. */
int sp_amdgpu_alloc(struct sp_amdgpu *dev, uint64_t nbytes, uint32_t kind, struct sp_amdgpu_memory **out);
/* Makes host memory usable in place; the caller keeps it alive. Returns 0 or -errno. If its pages
 * no longer exist, this call and each submission that uses the memory return -EFAULT. */
int sp_amdgpu_wrap(struct sp_amdgpu *dev, void *pointer, uint64_t nbytes, int readonly, struct sp_amdgpu_memory **out);
int sp_amdgpu_import(struct sp_amdgpu *dev, int fd, uint64_t nbytes, struct sp_amdgpu_memory **out);
/* Exports memory as a new descriptor and returns it. Returns -EPERM if the memory is not SHARED. */
int sp_amdgpu_export(struct sp_amdgpu_memory *m);
uint64_t sp_amdgpu_address(const struct sp_amdgpu_memory *m);
/* Returns 1 if the preferred heap was full, so that the memory is in another heap, else 0. */
int sp_amdgpu_displaced(const struct sp_amdgpu_memory *m);
/* Gives the address of the memory in this process. The address is valid until the last reference to
 * the memory is freed. Returns 0, or -EOPNOTSUPP if the CPU cannot reach the memory. */
int sp_amdgpu_map(struct sp_amdgpu_memory *m, void **out);
/* Like sp_amdgpu_map, for a caller that may write to the memory at any time, even while the GPU
 * runs. The view ends with sp_amdgpu_unview. A view is a reference to the memory and keeps it
 * alive. While a view exists, each submission begins with an empty L2. */
int sp_amdgpu_view(struct sp_amdgpu_memory *m, void **out);
void sp_amdgpu_unview(struct sp_amdgpu_memory *m);
void sp_amdgpu_hold(struct sp_amdgpu_memory *m);
void sp_amdgpu_free(struct sp_amdgpu_memory *m);

/* Values besides the kernel's own arguments that a compiled kernel expects in its kernarg
 * segment. */
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

/* A copy of bytes of the packed arguments to the offset where the kernel expects them. */
struct sp_amdgpu_argument_copy {
    uint32_t source;
    uint32_t target;
    uint32_t nbytes;
};

/* The packets of one dispatch, and the indexes of dwords that each launch patches. An index of 0
 * means that the dispatch has no such dword. */
struct sp_amdgpu_template {
    char name[64];
    uint32_t ndw;
    uint32_t dwords[96];
    uint32_t rsrc2_at;
    uint32_t tmpring_at;
    /* Index in `dwords` of the value for the register SCRATCH_BASE_LO; that for SCRATCH_BASE_HI
     * follows. The value is the scratch address >> 8. */
    uint32_t scratch_base_at;
    /* index in this template's `dwords` of the first two dwords of the buffer descriptor for
     * scratch memory */
    uint32_t scratch_resource_at;
    /* index in this template's `dwords` of the low dword of the 64-bit scratch address */
    uint32_t scratch_address_at;
    /* index in this template's `dwords` of the values for the registers START_X, START_Y, START_Z;
     * those for NUM_THREAD_X, _Y, _Z follow */
    uint32_t start_at;
    uint32_t kernarg_at;
    /* index in this template's `dwords` of the dispatch packet's dimensions x, y, z; its dword
     * DISPATCH_INITIATOR follows */
    uint32_t dims_at;
    uint32_t max_threads;
    /* the only group size that the kernel can be launched with; {0, 0, 0}: any size */
    uint32_t required_size[3];
    uint32_t lds_nbytes;
    uint32_t kernarg_nbytes;
    uint32_t kernarg_align;
    /* 1 + offset in the kernarg segment of a __local pointer argument; 0: there is none */
    uint32_t dynamic_lds_at;
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
/* Returns how many threads a job gets at present when a grid of the kernel is cut into jobs. */
uint64_t sp_amdgpu_job_threads(const struct sp_amdgpu_kernel *k);
/* Gives the template (a dispatch's packets) that the kernel was loaded with. Returns 0, or -EINVAL
 * if `k` is not a kernel. */
int sp_amdgpu_template_of(const struct sp_amdgpu_kernel *k, struct sp_amdgpu_template *out);

/* Opens a queue. Returns 0 or -errno: -EOPNOTSUPP for SP_QUEUE_TIMING on a GPU whose clock is
 * unknown. */
int sp_amdgpu_queue_open(struct sp_amdgpu *dev, uint32_t flags, struct sp_amdgpu_queue **out);
int sp_amdgpu_queue_close(struct sp_amdgpu_queue *q, uint64_t timeout_ns);

/* Checks records. Returns 0; -EINVAL for a malformed record, or for a grid or group size that the
 * kernel does not take; -E2BIG for too many threads, too much local memory, or scratch above
 * SP_AMDGPU_SCRATCH_MOST; -EOPNOTSUPP for a timestamp without a clock; or
 * an error of sp_signature_check. */
int sp_amdgpu_check(const struct sp_amdgpu *dev, const void *records, size_t nbytes);
/* If the rings have no room for another job, launch, run, submit and the transfers wait up to 0.1 s
 * for room. If there is still none and they sent no job, they return -EAGAIN, and the caller tries
 * again.
 *
 * If they sent only some jobs of the submission, they return -SP_AMDGPU_BEGUN - value, where
 * `value` is the timeline value of the submission. The queue accepts no other work until all jobs
 * of this submission are sent. Threads that wait for a value of this queue send the remaining jobs;
 * so does sp_amdgpu_hand_over. */
/* larger than any errno, so that -SP_AMDGPU_BEGUN - value is never a -errno */
enum sp_amdgpu_begun { SP_AMDGPU_BEGUN = 4096 };
int64_t sp_amdgpu_launch(void *queue, const void *record, size_t nbytes, uint64_t epoch);
int64_t sp_amdgpu_run(struct sp_prepared *p);
int64_t sp_amdgpu_submit(void *queue, const void *records, size_t nbytes, uint64_t epoch);
int64_t sp_amdgpu_resend(void *queue, const void *records, size_t nbytes, uint64_t epoch);
/* sp_amdgpu_upload copies host memory to the device; `data` may change when the call returns.
 * sp_amdgpu_download copies from the device; `data` must live until the timeline reaches the value
 * that sp_amdgpu_download returned. */
int64_t sp_amdgpu_upload(struct sp_amdgpu_queue *q, uint64_t address, const void *data, uint64_t nbytes);
int64_t sp_amdgpu_download(struct sp_amdgpu_queue *q, uint64_t address, void *data, uint64_t nbytes);
/* Opens a link for copies from the device of `reader` to device `here`. `reader` must be a queue
 * for this link alone. The link holds 16 MiB of GTT until it is closed; copies that have not ended
 * keep it alive after that. Returns 0 or -errno, such as -ENOMEM. */
int sp_amdgpu_link_open(struct sp_amdgpu *here, struct sp_amdgpu_queue *reader, struct sp_amdgpu_link **out);
void sp_amdgpu_link_close(struct sp_amdgpu_link *link);
/* Copies from the device at the other end of a link. Blocks only for room in either queue. The copy
 * keeps the memory of both devices alive until it has ended. Returns the timeline value; -EFAULT if
 * `src` or `dst` is not memory of its device; -EINVAL if the link does not end at the device of
 * `q`. If the job of the other device fails, the copy ends with -EIO. */
int64_t sp_amdgpu_copy_peer(struct sp_amdgpu_queue *q, uint64_t dst, struct sp_amdgpu_link *link, uint64_t src, uint64_t nbytes);
/* Encodes `records` as the next submission would, without submitting. Returns the number of dwords
 * of the IB, or -errno. Tests use it to learn what fits into one job. */
int64_t sp_amdgpu_encode(struct sp_amdgpu_queue *q, const void *records, size_t nbytes, uint32_t *out, size_t capacity);

uint64_t sp_amdgpu_reached(void *queue);
/* Waits until the queue's timeline has reached `value`. Returns 0, -ETIMEDOUT, or the error of the
 * submission with this value: -EIO for a fault (sp_amdgpu_fault has details), -ECANCELED for the
 * fault of another submission, -ENODEV if the device is lost. */
int sp_amdgpu_wait(void *queue, uint64_t value, uint64_t timeout_ns);
/* Sends the rest of the jobs of a submission that was sent in part (SP_AMDGPU_BEGUN). Does not wait
 * until the submission ends. Returns 0 when all jobs are sent, even if the submission failed;
 * -EAGAIN if some were sent in the given time, -ETIMEDOUT if none was; -EINVAL or -ECHILD as
 * sp_amdgpu_wait. */
int sp_amdgpu_hand_over(struct sp_amdgpu_queue *q, uint64_t value, uint64_t timeout_ns);
size_t sp_amdgpu_fault(struct sp_amdgpu_queue *q, uint64_t value, char *out, size_t capacity);
int64_t sp_amdgpu_peek(struct sp_amdgpu_queue *q, uint64_t value, void *records, size_t capacity,
                       struct sp_progress *out);

/* The allocator of GPU addresses, by first fit, exported for tests. Sizes and alignments are in
 * bytes. */
struct sp_va;
int sp_va_open(uint64_t begin, uint64_t end, uint64_t page, struct sp_va **out);
void sp_va_close(struct sp_va *va);
/* Allocates a range of addresses. Returns 0; -ENOMEM if no free range is large enough; -EINVAL if
 * `nbytes` is 0 or beyond the allocator's range, or `align` is no power of two. */
int sp_va_take(struct sp_va *va, uint64_t nbytes, uint64_t align, uint64_t *out);
/* Frees a range of addresses. Returns 0, or -EINVAL if no allocation has exactly this address and
 * size. */
int sp_va_give(struct sp_va *va, uint64_t at, uint64_t nbytes);
#endif
