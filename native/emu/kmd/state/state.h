/* The emulated kernel's objects, shared by all its rooms, and common code: numbers, the caller's
 * memory, the lock, the trace. `machine->lock` guards everything unless a comment says otherwise.
 * Only jobs run outside the lock, on a snapshot of the address space. */
#ifndef SP_EMU_KMD_STATE_H
#define SP_EMU_KMD_STATE_H
#include "include/sp_amdgpu_drm.h"
#include "include/sp_emu.h"
#include "emu/exec.h"
#include "kms.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

enum { KMD_PAGE = SP_VM_PAGE, KMD_ENTITY_JOBS = 32, KMD_COMPUTE_ENTITIES = 4, KMD_MAX_CARDS = 32 };
#define KMD_FOREVER UINT64_MAX

struct kmd_idr { /* small integers from 1 to pointers; the lowest free one is taken */
    void **slot;
    uint32_t capacity;
    uint32_t next; /* no slot below it is free */
};

struct kmd_fence {
    uint32_t refs;
    bool signalled;
    int error;                    /* 0 or -errno */
    uint32_t missing;             /* a joined fence: number of fences that it still waits for */
    struct kmd_fence **dependent; /* joined fences that wait for this one, each with a reference */
    uint32_t dependents;
    uint64_t jobs;          /* jobs/order.c: accounts of jobs that have ended when it signals */
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
    /* In the memfd. No later BO gets the same offset, so it identifies the memory for caches. A BO of
     * a userptr has an offset too. */
    uint64_t offset;
    uint8_t *host;
    uint8_t *marks; /* a byte per page: poison may be in it (vm.h); NULL: not tracked */
    uint64_t flags;
    uint64_t alignment;
    uint32_t domains; /* requested */
    uint32_t domain;  /* present domain: one bit */
    bool userptr;
    bool user_readonly;
    bool pinned; /* exported to another card: stays in GTT */
    const struct kmd_file *private_to; /* VM_ALWAYS_VALID: the file that made it */
    struct kmd_token *dmabuf;          /* no reference */
    struct kmd_uses uses;
    uint64_t metadata_flags, tiling_info;
    uint32_t metadata_nbytes;
    uint32_t metadata[64];
};

struct kmd_mapping {
    uint64_t first, end; /* pages */
    struct kmd_bo *bo;   /* NULL: PRT without a BO */
    uint64_t offset;     /* of `first` in the BO, bytes */
    uint32_t rights; /* SP_VM_* */
    bool prt;
    bool uncached; /* by MTYPE or by the BO's flags: no cache of the card holds it */
};

/* A snapshot of an address space. Jobs hold references; a shared one is copied before a change. */
struct sp_emu_vm {
    uint32_t refs;
    uint32_t count, capacity;
    struct kmd_mapping *map; /* by address */
    struct kmd_machine *machine;
};

struct kmd_point {
    uint64_t value;
    struct kmd_fence *fence; /* joined with all points before */
};

struct kmd_syncobj {
    uint32_t refs;
    bool timeline; /* a point was added since its fence was last replaced */
    uint32_t count, capacity;
    struct kmd_point *point; /* binary: none, or one with value 0 */
    uint64_t reached;        /* of dropped points, which had signalled */
    struct kmd_machine *machine;
};

struct kmd_entity { /* a queue of one context */
    struct kmd_ctx *ctx;
    uint32_t ip, index;
    uint64_t next_seq;
    int error; /* of the last failed job: drm_sched_entity_error */
    struct kmd_fence *fence[KMD_ENTITY_JOBS]; /* of seq % 32 */
    struct kmd_job *first, *last;             /* unfinished, in order */
    struct kmd_ring *ring;                    /* while it has jobs */
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
    struct kmd_bo **bo; /* sorted by address */
    struct kmd_machine *machine;
};

struct kmd_job {
    struct kmd_machine *machine;
    struct kmd_job *next;
    struct kmd_entity *entity; /* holds a reference to its context */
    uint64_t seq;
    struct kmd_fence *fence;
    struct kmd_fence *wait; /* all its dependencies, joined; NULL: none */
    struct kmd_bo_list *list;
    struct sp_emu_view view;
    struct sp_emu_ib *ib;
    uint32_t ibs;
    uint64_t ragged_va; /* address of an IB whose ib_bytes are not whole dwords: */
    uint32_t ragged_nbytes; /* 0: none */
    struct kmd_bo *fence_bo;
    uint32_t fence_offset;
    uint32_t vram_lost_counter; /* the card's counter at the submission */
    uint32_t account; /* jobs/order.c; 0: none */
    bool synced; /* its EMIT_MEM_SYNC has been executed */
    bool hang;
    uint32_t recovery;
    bool bad_read; /* injected: a bad read of bad_va */
    uint64_t bad_va;
    uint64_t slow; /* injected: factor of its duration; 0 and 1: unchanged */
    bool corrupt;  /* injected: xors a changed dword with corrupt_mask */
    uint32_t corrupt_mask;
    uint64_t corrupt_seed;
};

struct kmd_ring { /* hardware ring: a thread, started with its first job */
    struct kmd_card *card;
    uint32_t ip, index;
    bool started;
    pthread_t thread;
    struct kmd_ring_state *state; /* state of its thread */
    uint32_t load; /* jobs */
    struct kmd_job *running;
    uint32_t cancel;    /* atomic: the running job must stop */
    bool registers_lost; /* a reset: hwq starts again */
    struct kmd_entity **entity; /* entities with jobs here */
    uint32_t entities, capacity;
    uint32_t turn;
    uint32_t last_account; /* of its last job; 0: none */
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
    uint32_t kms_minor; /* of its kernel */
    struct kmd_chip chip;
    struct sp_l2 *l2; /* NULL: lenient about caches */
    uint64_t vram_used, visible_used, gtt_used;
    struct kmd_ring gfx, compute[4], dma[2];
    pthread_cond_t work; /* wakes the rings' threads */
    uint32_t reset_counter, vram_lost_counter;
    uint64_t userptr_pages; /* pages that its submissions have walked */
    uint64_t evictions;
    bool unplugged, hold;
    bool broken; /* SP_FLAW_RECOVERY, after a hung job */
    bool stuck_started; /* the thread of SP_FLAW_BIT */
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
    uint32_t id; /* also its descriptor's file position */
    uint64_t serial;
    struct kmd_card *card;
    struct kmd_idr bos, ctxs, lists, syncobjs;
    struct sp_emu_vm *vm;
    struct kmd_uses uses; /* of the address space: every job */
};

enum kmd_token_kind { KMD_DMABUF = 1, KMD_SYNCOBJ_FD, KMD_SYNC_FILE };
struct kmd_token { /* a descriptor that was handed out, known by its inode */
    struct kmd_token *next;
    uint32_t kind;
    uint64_t inode, device;
    int ours; /* its other end */
    struct kmd_bo *bo;
    struct kmd_syncobj *syncobj;
    struct kmd_fence *fence;
    bool told; /* sync_file: made readable */
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
    uint32_t generation; /* of the process */
    struct sp_emu_options options;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* signals a fence's end, or a new fence of a syncobj */
    uint32_t inside;        /* atomic: threads inside a call, also those that wait for the lock */
    bool closing;
    int memfd;
    uint64_t inode, device; /* of the memfd */
    uint64_t next_offset;
    uint64_t next_serial;
    uint64_t random;
    struct kmd_idr files;
    struct kmd_token *tokens;
    struct kmd_injection *injections;
    struct kmd_trace *trace;
    struct kmd_accounts *accounts; /* jobs/order.c; NULL: none yet */
    struct sp_emu_live live;
    uint32_t cards;
    struct kmd_card card[KMD_MAX_CARDS];
};

/* chips.c */
/* Finds a chip by a name that need not be NUL-terminated; NULL: unknown. */
const struct kmd_chip *kmd_chip(const char *name, size_t length);
/* Name of the i-th chip; NULL after the last. */
const char *kmd_chip_name(uint32_t i);
/* Changes a chip's facts to what a kernel of this version reports. */
void kmd_chip_of_kernel(struct kmd_chip *chip, uint32_t kms_minor);

/* card_text.c: a card's chip and kernel from its text and the machine's options. -EINVAL: `why` has
 * the reason */
int kmd_card_read(const char *text, const struct sp_emu_options *options, struct kmd_chip *chip, uint32_t *kms_minor, char *why,
                  size_t room);

/* harvest.c */
/* Number of shader engines with working units. */
uint32_t kmd_engines(struct drm_amdgpu_info_device *info);
/* Turns off all but `left` engines; pairs of units, with `left` even. */
void kmd_harvest_engines(struct drm_amdgpu_info_device *info, uint32_t left);
void kmd_harvest_units(struct drm_amdgpu_info_device *info, uint32_t left);
/* Computes cu_active_number from cu_bitmap. */
void kmd_count_units(struct drm_amdgpu_info_device *info);

/* The i-th ring of a card, NULL after the last. */
static inline struct kmd_ring *kmd_ring_at(struct kmd_card *card, uint32_t i)
{
    uint32_t compute = card->chip.compute_rings, dma = card->chip.dma_rings;
    if (i == 0)
        return &card->gfx;
    if (i - 1 < compute)
        return &card->compute[i - 1];
    return i - 1 - compute < dma ? &card->dma[i - 1 - compute] : NULL;
}

/* True if its card reports no job's end. */
static inline bool kmd_is_silent(const struct kmd_card *card)
{
    return sp_emu_flaw(&card->chip.core, SP_FLAW_INTERRUPT) != NULL;
}

/* idr.c */
int kmd_idr_add(struct kmd_idr *idr, void *object, uint32_t *id);
void *kmd_idr_get(const struct kmd_idr *idr, uint32_t id);
void *kmd_idr_remove(struct kmd_idr *idr, uint32_t id);

/* user.c: memory of the caller, which may be unmapped */
/* Call it once, first. 0; -errno: the two system calls are forbidden (seccomp), which would later
 * look like bad addresses. */
int kmd_user_is_reachable(void);
int kmd_copy_from_user(void *to, uint64_t from, size_t nbytes);
int kmd_copy_to_user(uint64_t to, const void *from, size_t nbytes);
/* 0 if every page of a range is readable, else -EFAULT. */
int kmd_probe_user(uint64_t from, uint64_t nbytes);
/* A new copy of count * size bytes. NULL with *error -EFAULT, -ENOMEM or -EINVAL (more than 16
 * MiB). NULL with *error 0: no bytes. */
void *kmd_copy_array(uint64_t from, uint64_t count, size_t size, int *error);

/* guard.c */
/* Counts forks from now on, once for all machines. */
void kmd_watch_forks(void);
uint64_t kmd_now(void);
uint32_t kmd_generation(void);
uint64_t kmd_random(struct kmd_machine *machine, uint64_t below);
uint64_t kmd_random_of(uint64_t *state, uint64_t below);
/* Every call from outside locks by these, so that the machine is not freed during the call. */
void kmd_enter(struct kmd_machine *machine);
void kmd_leave(struct kmd_machine *machine);
/* Waits for any change. -ETIME: the deadline. -ENODEV: the machine closes, or the card (NULL: none)
 * is removed. */
int kmd_wait_change(struct kmd_machine *machine, const struct kmd_card *card, uint64_t deadline_ns);
/* Converts the kernel's deadlines: signed, negative means no timeout. */
uint64_t kmd_deadline(uint64_t timeout);

/* trace.c: has a lock of its own */
struct kmd_trace *kmd_trace_new(void);
void kmd_trace_free(struct kmd_trace *trace);
void kmd_trace(struct kmd_machine *machine, const char *format, ...) __attribute__((format(printf, 2, 3)));
void kmd_trace_line(void *machine, const char *line);
#endif
