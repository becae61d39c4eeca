/* The emulated kernel's objects, and what its files offer each other. Everything here is guarded by `machine->lock` unless
 * it says otherwise; only the execution of a job happens outside it, on a snapshot of the address space. */
#ifndef SP_EMU_KMD_H
#define SP_EMU_KMD_H
#include "include/sp_amdgpu_drm.h"
#include "include/sp_emu.h"
#include "emu/cp/cp.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

enum { KMD_PAGE = SP_VM_PAGE, KMD_ENTITY_JOBS = 32, KMD_COMPUTE_ENTITIES = 4, KMD_MAX_CARDS = 16 };
#define KMD_FOREVER UINT64_MAX

struct kmd_idr { /* small integers from 1 to pointers; the lowest free one is taken */
    void **slot;
    uint32_t capacity;
    uint32_t next; /* no free slot below */
};

struct kmd_fence {
    uint32_t refs;
    bool signalled;
    int error;                    /* 0 or -errno */
    uint32_t missing;             /* a joined fence: of how many others it still waits for */
    struct kmd_fence **dependent; /* joined fences that wait for this one, each with a reference */
    uint32_t dependents;
    struct kmd_fence *next; /* while fence.c settles or frees it */
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
    uint64_t offset; /* in the memfd; never used again for another BO */
    uint8_t *host;
    uint64_t flags;
    uint64_t alignment;
    uint32_t domains; /* as asked for */
    uint32_t domain;  /* where it is: one bit */
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
    uint64_t first, end; /* pages: [first, end) */
    struct kmd_bo *bo;   /* NULL: PRT without one */
    uint64_t offset;     /* of `first` in the BO, bytes */
    uint32_t rights; /* SP_VM_* */
    bool prt;
};

/* An address space as of one moment. Jobs hold references; whoever changes a shared one copies it first. */
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
    bool timeline; /* has had a point added since its fence was last replaced */
    uint32_t count, capacity;
    struct kmd_point *point; /* binary: none or one with value 0 */
    uint64_t reached;        /* of points that were dropped because they had signalled */
    struct kmd_machine *machine;
};

struct kmd_entity { /* a queue of one context */
    struct kmd_ctx *ctx;
    uint32_t ip, index;
    uint64_t next_seq;
    int error; /* of the last job that failed: drm_sched_entity_error */
    struct kmd_fence *fence[KMD_ENTITY_JOBS]; /* of seq % 32 */
    struct kmd_job *first, *last;             /* not yet finished, in order */
    struct kmd_ring *ring;                    /* while jobs are there */
};

struct kmd_ctx {
    uint32_t refs;
    struct kmd_card *card;
    uint64_t serial; /* no other context of the machine has it, ever */
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
    struct kmd_entity *entity; /* its context is referenced */
    uint64_t seq;
    struct kmd_fence *fence;
    struct kmd_fence *wait; /* all it depends on, joined; NULL: nothing */
    struct kmd_bo_list *list;
    struct sp_emu_view view;
    struct sp_emu_ib *ib;
    uint32_t ibs;
    uint64_t ragged_va; /* of an IB whose ib_bytes are not whole dwords: */
    uint32_t ragged_nbytes; /* 0: none */
    struct kmd_bo *fence_bo;
    uint32_t fence_offset;
    uint32_t vram_lost_counter; /* of the card when it was submitted */
    bool hang;
    uint32_t recovery;
    bool bad_read; /* injected: of bad_va */
    uint64_t bad_va;
    uint64_t slow; /* injected: times its time; 0 and 1: as it is */
    bool corrupt;  /* injected: corrupt_mask over a dword that it changes */
    uint32_t corrupt_mask;
    uint64_t corrupt_seed;
};

struct kmd_ring { /* hardware ring: a thread, started with its first job */
    struct kmd_card *card;
    uint32_t ip, index;
    bool started;
    pthread_t thread;
    struct kmd_ring_state *state; /* the thread's */
    uint32_t load; /* jobs */
    struct kmd_job *running;
    uint32_t cancel;    /* atomic: the running job is to stop */
    bool registers_lost; /* a reset: hwq starts anew */
    struct kmd_entity **entity; /* that have jobs here */
    uint32_t entities, capacity;
    uint32_t turn;
};

struct kmd_ring_state { /* of a ring's thread, outside the lock */
    struct sp_emu_hwq hwq;
    struct sp_emu_exec exec;
};

struct kmd_chip {
    struct sp_emu_chip core;
    uint64_t vram_nbytes, visible_nbytes, gtt_nbytes;
    uint32_t compute_rings, dma_rings;
    uint32_t gfx_version, dma_version; /* major << 16 | minor << 8 | revision */
    uint32_t me, pfp, mec, rlc, sdma;  /* firmware */
    uint32_t gb_addr_config;
    struct drm_amdgpu_info_device info;
};
const struct kmd_chip *kmd_chip(const char *name);

struct kmd_card {
    struct kmd_machine *machine;
    uint32_t index;
    struct kmd_chip chip;
    uint64_t vram_used, visible_used, gtt_used;
    struct kmd_ring gfx, compute[4], dma[2];
    pthread_cond_t work; /* something for the rings */
    uint32_t reset_counter, vram_lost_counter;
    bool unplugged, hold;
    bool broken; /* SP_FLAW_RECOVERY, and a job hung */
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
struct kmd_token { /* a descriptor given out, known by its inode */
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
    pthread_cond_t changed; /* a fence signalled, or a syncobj got one */
    uint32_t inside;        /* atomic: threads inside a call, waiting for the lock included */
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
    struct sp_emu_live live;
    uint32_t cards;
    struct kmd_card card[KMD_MAX_CARDS];
};

/* ops.c */
struct kmd_ops *kmd_ops_new(struct kmd_machine *machine);
/* From now on its calls find no machine; says whether some that did are still inside. */
bool kmd_ops_end(struct kmd_ops *ops);
const struct sp_kmd_ops *kmd_ops_table(const struct kmd_ops *ops);

/* idr.c */
int kmd_idr_add(struct kmd_idr *idr, void *object, uint32_t *id);
void *kmd_idr_get(const struct kmd_idr *idr, uint32_t id);
void *kmd_idr_remove(struct kmd_idr *idr, uint32_t id);

/* user.c: memory of the caller, which may not be there */
/* Once, first: 0, or -errno when the two system calls are forbidden (seccomp), which later would look like bad addresses. */
int kmd_user_is_reachable(void);
int kmd_copy_from_user(void *to, uint64_t from, size_t nbytes);
int kmd_copy_to_user(uint64_t to, const void *from, size_t nbytes);
/* Whether every page of a range can be read: 0 or -EFAULT. */
int kmd_probe_user(uint64_t from, uint64_t nbytes);
/* A new copy of count * size bytes; NULL and -EFAULT, -ENOMEM or -EINVAL (more than 16 MiB) in *error. NULL and 0 for none. */
void *kmd_copy_array(uint64_t from, uint64_t count, size_t size, int *error);

/* machine.c */
uint64_t kmd_now(void);
uint32_t kmd_generation(void);
uint64_t kmd_random(struct kmd_machine *machine, uint64_t below);
uint64_t kmd_random_of(uint64_t *state, uint64_t below);
/* Every call from outside takes the lock by these, so that the machine is not freed under it. */
void kmd_enter(struct kmd_machine *machine);
void kmd_leave(struct kmd_machine *machine);
/* Waits for a change of anything; -ETIME at the deadline, -ENODEV when the machine closes or the card (NULL: none) goes. */
int kmd_wait_change(struct kmd_machine *machine, const struct kmd_card *card, uint64_t deadline_ns);
/* Deadlines as the kernel takes them: signed, negative for ever. */
uint64_t kmd_deadline(uint64_t timeout);

/* fd.c */
struct kmd_file *kmd_file_of(struct kmd_machine *machine, int fd);
struct kmd_token *kmd_token_of(struct kmd_machine *machine, int fd);
int kmd_token_dmabuf(struct kmd_machine *machine, struct kmd_bo *bo, uint32_t flags);
int kmd_token_syncobj(struct kmd_machine *machine, struct kmd_syncobj *syncobj);
int kmd_token_sync_file(struct kmd_machine *machine, struct kmd_fence *fence);
void kmd_tell_sync_files(struct kmd_machine *machine);
/* Releases what nobody holds open any more. */
void kmd_sweep(struct kmd_machine *machine);
void kmd_drop_tokens(struct kmd_machine *machine);

/* file.c */
int kmd_file_open(struct kmd_card *card, struct kmd_file **out);
void kmd_file_close(struct kmd_machine *machine, struct kmd_file *file);
void kmd_file_put(struct kmd_file *file);

/* dispatch.c */
int kmd_ioctl(void *self, int fd, uint32_t request, void *arg);

/* bo.c, gem.c */
int kmd_bo_new(struct kmd_card *card, uint64_t nbytes, uint32_t domains, uint64_t flags, struct kmd_bo **out);
int kmd_bo_new_user(struct kmd_card *card, uint64_t address, uint64_t nbytes, bool readonly, struct kmd_bo **out);
void kmd_bo_get(struct kmd_bo *bo);
void kmd_bo_put(struct kmd_bo *bo);
void kmd_bo_move_to_gtt(struct kmd_bo *bo);
/* uses.c: notes a job's use; 0 or -ENOMEM. */
int kmd_uses_add(struct kmd_uses *uses, struct kmd_fence *fence, uint64_t owner);
void kmd_uses_prune(struct kmd_uses *uses); /* forgets what has signalled */
void kmd_uses_clear(struct kmd_uses *uses);
/* userptr.c: 0, or -EFAULT when the user's pages are no longer there, or may not be written as the BO's may */
int kmd_userptr_check(const struct kmd_bo *bo);

/* vm.c (of the emulator), space.c */
struct sp_emu_vm *kmd_vm_new(struct kmd_machine *machine);
void kmd_vm_put(struct sp_emu_vm *vm);
/* The file's address space, made its own if a job shares it; NULL: no memory. */
struct sp_emu_vm *kmd_vm_writable(struct kmd_file *file);
uint32_t kmd_vm_find(const struct sp_emu_vm *vm, uint64_t page);
int kmd_vm_insert(struct sp_emu_vm *vm, const struct kmd_mapping *mapping);
int kmd_vm_clear(struct sp_emu_vm *vm, uint64_t first, uint64_t end);
void kmd_vm_remove(struct sp_emu_vm *vm, uint32_t index);

/* fence.c */
struct kmd_fence *kmd_fence_new(struct kmd_machine *machine);
struct kmd_fence *kmd_fence_get(struct kmd_fence *fence);
void kmd_fence_put(struct kmd_fence *fence);
void kmd_fence_signal(struct kmd_fence *fence, int error);
/* A fence that signals after all of them, with the first error; NULL: no memory. NULL entries count as signalled. */
struct kmd_fence *kmd_fence_join(struct kmd_machine *machine, struct kmd_fence *const *fences, uint32_t count);

/* syncobj.c */
void kmd_syncobj_put(struct kmd_syncobj *syncobj);
struct kmd_syncobj *kmd_syncobj_find(struct kmd_file *file, uint32_t handle);
int kmd_syncobj_new(struct kmd_machine *machine, struct kmd_syncobj **out);
int kmd_syncobj_set(struct kmd_syncobj *syncobj, struct kmd_fence *fence);
int kmd_syncobj_add(struct kmd_syncobj *syncobj, uint64_t value, struct kmd_fence *fence);
/* A reference to the fence of that point (0: of everything), or NULL when nobody has promised it yet. */
struct kmd_fence *kmd_syncobj_fence(struct kmd_syncobj *syncobj, uint64_t point);
/* By handle; with flags WAIT_FOR_SUBMIT it waits for a fence to come. 0, -ENOENT, -EINVAL, -ETIME. */
int kmd_syncobj_take(struct kmd_file *file, uint32_t handle, uint64_t point, uint32_t flags, struct kmd_fence **out);

/* ctx.c */
void kmd_ctx_put(struct kmd_ctx *ctx);
/* 0 or -EINVAL */
int kmd_ctx_entity(struct kmd_ctx *ctx, uint32_t ip, uint32_t instance, uint32_t ring, struct kmd_entity **out);
/* A reference to the fence of `seq` (~0: the latest); NULL: long done. -EINVAL for the future. */
int kmd_entity_fence(struct kmd_entity *entity, uint64_t seq, struct kmd_fence **out);
int kmd_fence_of(struct kmd_file *file, const struct drm_amdgpu_fence *which, struct kmd_fence **out);

/* bo_list.c */
int kmd_bo_list_read(struct kmd_file *file, const struct drm_amdgpu_bo_list_in *in, struct kmd_bo_list **out);
void kmd_bo_list_put(struct kmd_bo_list *list);

/* job.c */
int kmd_job_push(struct kmd_job *job);
void kmd_job_free(struct kmd_job *job);
/* Takes it off its entity, signals its fence, frees it. */
void kmd_job_finish(struct kmd_job *job, int error);
/* The i-th ring of a card, NULL behind the last. */
struct kmd_ring *kmd_ring_at(struct kmd_card *card, uint32_t i);
void kmd_card_start(struct kmd_card *card);
void kmd_card_stop(struct kmd_machine *machine, struct kmd_card *card);

/* run.c: unlocks while the job runs; the job's error, with why in state->exec.fault */
int kmd_job_run(struct kmd_ring *ring, struct kmd_ring_state *state, struct kmd_job *job);

/* plan.c: 0 or -ENOMEM */
int kmd_plan_add(struct kmd_card *card, const struct sp_emu_planned *planned);
/* What is planned for this ioctl (its -errno, or 0 to let it be made) and for this job */
int kmd_plan_ioctl(struct kmd_card *card, uint32_t nr);
void kmd_plan_job(struct kmd_card *card, struct kmd_job *job);
void kmd_plan_corrupt_next(struct kmd_card *card, const struct kmd_job *job);
void kmd_plan_drop(struct kmd_card *card);

/* corrupt.c: what a job may write, before it runs; NULL: no memory, or nothing. */
struct kmd_before *kmd_before_job(const struct kmd_job *job);
/* Xors a dword that has changed since; frees `before`. False: nothing has changed. */
bool kmd_corrupt(struct kmd_before *before, uint32_t mask, uint64_t seed);

/* plant.c: flaws of memory. A mapping of [offset, offset + nbytes) of the memfd at `at` shows what an address line does. */
void kmd_alias(const struct kmd_bo *bo, uint8_t *at, uint64_t offset, uint64_t nbytes);
int kmd_stuck_start(struct kmd_card *card);
void kmd_stuck_stop(struct kmd_card *card); /* with `closing` set, without the lock */
bool kmd_is_silent(const struct kmd_card *card); /* SP_FLAW_INTERRUPT */

/* reset.c */
/* After a job failed with `error`: tells the context, resets what is to be reset, finishes the job. */
void kmd_recover(struct kmd_ring *ring, struct kmd_job *job, int error);
void kmd_note_fault(struct kmd_card *card, const struct sp_emu_fault *fault);
void kmd_reset(struct kmd_card *card, bool vram_lost);
void kmd_unplug(struct kmd_card *card);

/* trace.c: has a lock of its own */
struct kmd_trace *kmd_trace_new(void);
void kmd_trace_free(struct kmd_trace *trace);
void kmd_trace(struct kmd_machine *machine, const char *format, ...) __attribute__((format(printf, 2, 3)));
void kmd_trace_line(void *machine, const char *line);
const char *kmd_ioctl_name(uint32_t nr);
#endif
