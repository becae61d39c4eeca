/* The objects of the emulated kernel driver, which all its folders share, and common code: handles,
 * the caller's memory, the lock, the clock, the trace. `machine->lock` guards everything unless a
 * comment says otherwise. Only jobs run without the lock, on a snapshot of the address space. */
#ifndef SP_EMU_KMD_STATE_H
#define SP_EMU_KMD_STATE_H
#include "include/sp_amdgpu_drm.h"
#include "include/sp_emu.h"
#include "emu/exec/exec.h"
#include "kms.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

enum { KMD_PAGE = SP_VM_PAGE, KMD_ENTITY_JOBS = 32, KMD_COMPUTE_ENTITIES = 4, KMD_MAX_CARDS = 32 };
#define KMD_FOREVER UINT64_MAX

/* maps small integers from 1 to pointers; a new pointer gets the lowest free one */
struct kmd_idr {
    void **slot;
    uint32_t capacity;
    uint32_t next; /* slot[0] to slot[next - 1] are all in use */
};

struct kmd_fence {
    uint32_t refs;
    bool signalled;
    int error;                    /* 0 or -errno */
    /* number of fences that this fence still waits for; 0 unless kmd_fence_join made this fence */
    uint32_t missing;
    /* fences made by kmd_fence_join that wait for this one; the array holds a reference to each */
    struct kmd_fence **dependent;
    uint32_t dependents;
    /* Mask of the jobs that have ended when the fence signals. Bit i stands for the job of account
     * i (struct account, jobs/order.c). */
    uint64_t jobs;
    struct kmd_fence *next; /* next fence in a work list of fence.c: fences to signal, or to free */
    struct kmd_machine *machine;
};

struct kmd_use { /* a job's use of a BO, for implicit synchronisation and WAIT_IDLE */
    struct kmd_fence *fence;
    uint64_t owner; /* kmd_file.serial */
};

struct kmd_uses {
    struct kmd_use *at;
    uint32_t count, capacity;
};

struct kmd_bo {
    uint32_t refs;
    struct kmd_card *card;
    uint64_t nbytes;
    /* Offset in the machine's memfd. A userptr has an offset too, although its memory is not in the
     * memfd. No later BO gets the same offset, so the caches identify memory by it. */
    uint64_t offset;
    uint8_t *host;
    /* a byte per page: nonzero if poison may be in the page (memory/vm.h); NULL: not tracked */
    uint8_t *marks;
    uint64_t flags;
    uint64_t alignment;
    uint32_t domains; /* requested */
    uint32_t domain;  /* the domain where the BO is now: one bit */
    bool userptr;
    bool user_readonly;
    bool pinned; /* exported to another card, so the BO stays in GTT */
    /* with VM_ALWAYS_VALID: the file that made the BO; without this flag: NULL */
    const struct kmd_file *private_to;
    struct kmd_token *dmabuf;          /* the dma-buf of this BO; the pointer holds no reference */
    struct kmd_uses uses;
    uint64_t metadata_flags, tiling_info;
    uint32_t metadata_nbytes;
    uint32_t metadata[64];
};

struct kmd_mapping {
    uint64_t first, end; /* pages */
    struct kmd_bo *bo;   /* NULL: a PRT range without a BO */
    uint64_t offset;     /* offset of page `first` in the BO, in bytes */
    uint32_t rights; /* SP_VM_* */
    bool prt;
    /* true: no cache of the card may hold the pages, because of the mapping's MTYPE or the BO's
     * flags */
    bool uncached;
};

/* An address space. Each job holds a reference to the one that it was submitted with. Whoever wants
 * to change a space that a job holds makes a copy and changes the copy. */
struct sp_emu_vm {
    uint32_t refs;
    uint32_t count, capacity;
    struct kmd_mapping *map; /* mappings, sorted by address */
    struct kmd_machine *machine;
};

struct kmd_point {
    uint64_t value;
    struct kmd_fence *fence; /* this fence signals after those of all earlier points */
};

struct kmd_syncobj {
    uint32_t refs;
    bool timeline; /* true if a point was added since the fence was last replaced */
    uint32_t count, capacity;
    /* points of a timeline, by value; for a binary syncobj: none, or one with value 0 */
    struct kmd_point *point;
    /* value of the highest signalled point that was removed from `point` */
    uint64_t reached;
    struct kmd_machine *machine;
};

struct kmd_entity { /* a queue of one context */
    struct kmd_ctx *ctx;
    uint32_t ip, index;
    uint64_t next_seq;
    int error; /* error of the last failed job (drm_sched_entity_error) */
    struct kmd_fence *fence[KMD_ENTITY_JOBS]; /* fence of submission `seq` at index seq % 32 */
    struct kmd_job *first, *last;             /* unfinished jobs, in the order of submission */
    /* ring that has the entity's jobs; NULL without jobs */
    struct kmd_ring *ring;
};

struct kmd_ctx {
    uint32_t refs;
    struct kmd_card *card;
    uint64_t serial; /* unique among all contexts of the machine, for ever */
    bool guilty;
    uint32_t reset_counter, reset_counter_query, vram_lost_counter;
    int32_t priority;
    uint32_t pstate;
    struct kmd_entity gfx, compute[KMD_COMPUTE_ENTITIES], dma[2];
};

struct kmd_bo_list {
    uint32_t refs;
    uint32_t count;
    struct kmd_bo **bo; /* BOs, sorted by pointer */
    struct kmd_machine *machine;
};

struct kmd_job {
    struct kmd_machine *machine;
    struct kmd_job *next;
    struct kmd_entity *entity; /* the job holds a reference to the entity's context */
    uint64_t seq;
    struct kmd_fence *fence;
    /* signals after all fences that the job depends on; NULL: the job depends on no fence */
    struct kmd_fence *wait;
    struct kmd_bo_list *list;
    struct sp_emu_view view;
    struct sp_emu_ib *ib;
    uint32_t ibs;
    uint64_t ragged_va; /* address of an IB whose ib_bytes is not a multiple of 4 */
    uint32_t ragged_nbytes; /* ib_bytes of the IB at ragged_va; 0: all IBs have a multiple of 4 */
    struct kmd_bo *fence_bo;
    uint32_t fence_offset;
    uint32_t vram_lost_counter; /* the card's vram_lost_counter when the job was submitted */
    /* 1 + index of the struct account (jobs/order.c) that records the job's accesses; 0: none */
    uint32_t account;
    bool synced; /* true if the job's EMIT_MEM_SYNC has been executed */
    bool hang;
    uint32_t recovery;
    bool bad_read; /* injected: the job reads bad_va */
    uint64_t bad_va;
    uint64_t slow; /* injected: factor by which the job takes longer; 0 and 1: unchanged */
    bool corrupt;  /* injected: one dword that the job changed is xored with corrupt_mask */
    uint32_t corrupt_mask;
    uint64_t corrupt_seed;
};

/* a hardware ring and the thread that runs its jobs; the first job starts the thread */
struct kmd_ring {
    struct kmd_card *card;
    uint32_t ip, index;
    bool started;
    pthread_t thread;
    struct kmd_ring_state *state; /* state of the ring's thread */
    uint32_t load; /* jobs */
    struct kmd_job *running;
    uint32_t cancel;    /* atomic: the running job must stop */
    /* true after a reset: the ring's thread must reset state->hwq before the next job */
    bool registers_lost;
    struct kmd_entity **entity; /* entities that have jobs on this ring */
    uint32_t entities, capacity;
    uint32_t turn;
    /* 1 + index of the struct account (jobs/order.c) that records the accesses of the ring's last
     * job; 0: none */
    uint32_t last_account;
};

struct kmd_chip {
    struct sp_emu_chip core;
    uint64_t vram_nbytes, visible_nbytes, gtt_nbytes;
    uint32_t compute_rings, dma_rings;
    uint32_t gfx_version, dma_version; /* major << 16 | minor << 8 | revision */
    uint32_t cp_feature, me, pfp, mec, rlc, sdma; /* firmware */
    uint32_t gb_addr_config;
    struct drm_amdgpu_info_device info;
};

struct kmd_card {
    struct kmd_machine *machine;
    uint32_t index;
    uint32_t kms_minor; /* minor version of the card's KMS */
    struct kmd_chip chip;
    struct sp_l2 *l2; /* NULL: the machine is lenient about caches */
    uint64_t vram_used, visible_used, gtt_used;
    uint64_t on_chip_used[3]; /* pages of GDS, GWS and OA, as bytes */
    struct kmd_ring gfx, compute[4], dma[2];
    pthread_cond_t work; /* wakes the threads of the card's rings */
    uint32_t reset_counter, vram_lost_counter;
    uint64_t userptr_pages; /* pages of userptrs that submissions to this card have walked */
    uint64_t evictions;
    bool unplugged, hold;
    bool broken; /* with SP_FLAW_RECOVERY: a job has hung, and every context is refused since */
    bool stuck_started; /* true if the thread of SP_FLAW_BIT runs */
    pthread_t stuck;
    bool hang_next;
    uint32_t hang_recovery;
    bool fault_next;
    uint64_t fault_va;
    struct kmd_plan *plans;
    uint64_t planned_done[SP_EMU_ACTIONS];
    struct sp_emu_fault_report fault;
};

struct kmd_file { /* one open of a render node */
    uint32_t refs;
    uint32_t id; /* also the file position of the render node's descriptor */
    uint64_t serial;
    struct kmd_card *card;
    struct kmd_idr bos, ctxs, lists, syncobjs;
    struct sp_emu_vm *vm;
    struct kmd_uses uses; /* jobs that run in `vm`: each adds a struct kmd_use */
};

enum kmd_token_kind { KMD_DMABUF = 1, KMD_SYNCOBJ_FD, KMD_SYNC_FILE };
/* a dma-buf or sync descriptor that an ioctl has returned; its inode identifies it */
struct kmd_token {
    struct kmd_token *next;
    uint32_t kind;
    uint64_t inode, device;
    int ours; /* the emulator's end of the dma-buf or socket pair */
    struct kmd_bo *bo;
    struct kmd_syncobj *syncobj;
    struct kmd_fence *fence;
    bool told; /* sync_file: true once the byte that makes its descriptor readable was sent */
};

struct kmd_trace;
struct kmd_accounts;
struct kmd_injection {
    struct kmd_injection *next;
    uint32_t nr, count;
    int error;
};

struct kmd_machine {
    struct kmd_ops *ops;
    /* sp_fork_generation() (number of forks) of the process that opened the machine */
    uint32_t generation;
    struct sp_emu_options options;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* signalled when a fence signals, or a syncobj gets a fence */
    /* atomic: number of threads inside a call, including those that wait for the lock */
    uint32_t inside;
    bool closing;
    int memfd;
    uint64_t inode, device; /* inode and device of the memfd */
    uint64_t next_offset;
    uint64_t next_serial;
    uint64_t random;
    struct kmd_idr files;
    struct kmd_token *tokens;
    struct kmd_injection *injections;
    struct kmd_trace *trace;
    /* what each job has accessed (struct account, jobs/order.c); NULL: no job was submitted yet */
    struct kmd_accounts *accounts;
    struct sp_emu_live live;
    uint32_t cards;
    struct kmd_card card[KMD_MAX_CARDS];
};

/* chips.c */
/* Finds a chip by a name that need not be NUL-terminated. NULL: unknown. */
const struct kmd_chip *kmd_chip(const char *name, size_t length);
/* Returns the name of the i-th chip, or NULL after the last one. */
const char *kmd_chip_name(uint32_t i);
/* Changes a chip's facts to those that a kernel driver of this KMS version reports. */
void kmd_chip_of_kernel(struct kmd_chip *chip, uint32_t kms_minor);

/* card_text.c: reads a card's chip and its KMS version from the text that describes the card and
 * from the machine's options. Returns 0, or -EINVAL with the reason in `why`. */
int kmd_card_read(const char *text, const struct sp_emu_options *options, struct kmd_chip *chip, uint32_t *kms_minor, char *why,
                  size_t room);

/* harvest.c */
/* Returns the number of shader engines with working units. */
uint32_t kmd_engines(struct drm_amdgpu_info_device *info);
/* kmd_harvest_engines turns off all but `left` shader engines. kmd_harvest_units turns off WGPs
 * (pairs of CUs) until only `left` CUs are on; `left` is even. */
void kmd_harvest_engines(struct drm_amdgpu_info_device *info, uint32_t left);
void kmd_harvest_units(struct drm_amdgpu_info_device *info, uint32_t left);
/* Computes cu_active_number from cu_bitmap. */
void kmd_count_units(struct drm_amdgpu_info_device *info);

/* Returns the i-th ring of a card, or NULL after the last one. */
static inline struct kmd_ring *kmd_ring_at(struct kmd_card *card, uint32_t i)
{
    uint32_t compute = card->chip.compute_rings, dma = card->chip.dma_rings;
    if (i == 0)
        return &card->gfx;
    if (i - 1 < compute)
        return &card->compute[i - 1];
    return i - 1 - compute < dma ? &card->dma[i - 1 - compute] : NULL;
}

/* Returns true if the card has the flaw SP_FLAW_INTERRUPT: it never reports that a job has
 * ended. */
static inline bool kmd_is_silent(const struct kmd_card *card)
{
    return sp_emu_flaw(&card->chip.core, SP_FLAW_INTERRUPT) != NULL;
}

/* idr.c */
int kmd_idr_add(struct kmd_idr *idr, void *object, uint32_t *id);
void *kmd_idr_get(const struct kmd_idr *idr, uint32_t id);
void *kmd_idr_remove(struct kmd_idr *idr, uint32_t id);

/* Functions of user.c. They access the caller's memory, which may be unmapped. */
/* Checks that the two system calls which reach the caller's memory are allowed. Returns -errno if
 * seccomp forbids them. Call it once, when a machine is opened: a failure in an ioctl would look
 * like a bad address of the caller. */
int kmd_user_is_reachable(void);
int kmd_copy_from_user(void *to, uint64_t from, size_t nbytes);
int kmd_copy_to_user(uint64_t to, const void *from, size_t nbytes);
/* Returns 0 if every page of a range is readable, else -EFAULT. */
int kmd_probe_user(uint64_t from, uint64_t nbytes);
/* Returns a new copy of count * size bytes, or NULL with `*error`: 0 if `count` is 0, else -EFAULT,
 * -ENOMEM, or -EINVAL for more than 16 MiB. */
void *kmd_copy_array(uint64_t from, uint64_t count, size_t size, int *error);

/* guard.c */
/* Starts to count forks, once for all machines. */
void kmd_watch_forks(void);
uint64_t kmd_now(void);
uint32_t kmd_generation(void);
uint64_t kmd_random(struct kmd_machine *machine, uint64_t below);
uint64_t kmd_random_of(uint64_t *state, uint64_t below);
/* kmd_enter locks a machine, kmd_leave unlocks it. Every call into the emulator from a driver or
 * test uses them, so that the machine is not freed during the call. */
void kmd_enter(struct kmd_machine *machine);
void kmd_leave(struct kmd_machine *machine);
/* Waits for any change of fences and syncobjs. Returns -ETIME at the deadline; -ENODEV if the
 * machine closes or the card (NULL: none) is removed. */
int kmd_wait_change(struct kmd_machine *machine, const struct kmd_card *card, uint64_t deadline_ns);
/* Converts the timeout of an ioctl to a deadline. The kernel driver reads it as a signed number; a
 * negative one means to wait for ever. */
uint64_t kmd_deadline(uint64_t timeout);

/* Functions of trace.c: lines about ioctls and packets. The trace has its own lock. */
struct kmd_trace *kmd_trace_new(void);
void kmd_trace_free(struct kmd_trace *trace);
void kmd_trace(struct kmd_machine *machine, const char *format, ...) __attribute__((format(printf, 2, 3)));
void kmd_trace_line(void *machine, const char *line);
#endif
