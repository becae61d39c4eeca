/* The emulated machine: AMD cards behind `struct sp_kmd_ops`. native/emu/README.md says what it
 * models.
 *
 * A render node is a real file descriptor: a description of one sparse memfd, recognised by its
 * file position. So a BO's mmap offset is the memfd's and a plain mmap() maps it. dup, SCM_RIGHTS
 * and close need no help. PRIME, syncobj and sync_file descriptors are real and are recognised by
 * inode.
 *
 * All functions may be called from any thread. In a forked child the machine does not exist:
 * -ENODEV; -EINVAL for functions that name a card; nothing is alive. */
#ifndef SP_EMU_H
#define SP_EMU_H
#include "sp_base.h"
#include "sp_kmd.h"

/* Increases when the interface between `_emu` and its caller changes; sparkle_drv.testing compares
 * it before use. */
uint32_t sp_emu_version(void);

/* How the GPU recovers when a job exceeds its time limit or faults. */
enum sp_emu_recovery {
    SP_EMU_RECOVER_RING = 0, /* fence -ETIME; the context is guilty; its other jobs end with -ECANCELED */
    SP_EMU_RECOVER_SOFT,     /* fence -ENODATA; no context is guilty */
    SP_EMU_RECOVER_FULL,     /* as RING, and every ring is restarted */
    /* as FULL; BOs in VRAM begin with 0xdd; all unfinished jobs end with -ECANCELED */
    SP_EMU_RECOVER_VRAM_LOST
};

/* Leniencies for foreign drivers (SPARKLE_EMU_MODE=lenient). native/emu/README.md lists each with
 * its reason. */
enum sp_emu_lenient {
    SP_LENIENT_UNLISTED = 1,      /* BOs that the job does not list */
    SP_LENIENT_UNINITIALISED = 2, /* registers, LDS and memory that are read before a write are 0 */
    SP_LENIENT_RESERVED = 4,      /* reserved bits set; more scalars in a vector instruction than it can read */
    SP_LENIENT_PADDING = 8,
    SP_LENIENT_UNPROGRAMMED = 16, /* a dispatch may use registers that its job has not programmed */
    /* registers that no table declares may be written; forbidden ones still may not */
    SP_LENIENT_REGISTER = 32,
    SP_LENIENT_ORDER = 64,        /* packets and jobs that may overlap run one after another */
    SP_LENIENT_CACHES = 128,      /* no caches: every reader sees memory at once */
    SP_LENIENT_DEALLOC = 256,     /* VGPRs are freed while stores to scratch are under way */
    SP_LENIENT_RACES = 512        /* unordered accesses of several waves */
};

struct sp_emu_fault_report;
/* 0 means the default in every field. */
struct sp_emu_options {
    uint32_t lenient;       /* bits of enum sp_emu_lenient; 0: strict */
    /* threads that execute one dispatch; default 1, which is deterministic */
    uint32_t threads;
    uint32_t kms_minor;     /* KMS version of cards whose text does not give it; default 54 */
    uint32_t recovery;      /* enum sp_emu_recovery */
    uint64_t job_limit_ns;  /* default 10 s */
    uint64_t delay_ns;      /* most random delay of a job's start, and again of its completion; default 0 */
    uint64_t seed;          /* seed of the random delays */
    uint64_t vram_nbytes;   /* this and the next two: for cards whose text does not say; default: the chip's */
    uint64_t visible_nbytes;
    uint64_t gtt_nbytes;
    uint32_t trace;         /* 1: ioctls and jobs, 2: packets and instructions too */
    uint32_t name_stale;    /* 1: a stale read from a cache is a fault that names the missing invalidation */
    uint32_t sys_nice;      /* 1: as with CAP_SYS_NICE: contexts above NORMAL are allowed */
    /* Called at each fault by the job's thread, which holds the machine's lock; NULL: no call. */
    void (*on_fault)(uint32_t card, const struct sp_emu_fault_report *fault);
};

struct sp_emu_machine;
/* `chips`: one text per card, 1 to 32 of them: a chip's name, then options after colons, such as
 * "gfx1103:kms-3.42:bar-256M" (native/emu/README.md lists them). -EINVAL: sp_emu_check_card refuses
 * a text. -EPERM or -ENOSYS: process_vm_readv and process_vm_writev are forbidden. */
int sp_emu_machine_open(const char *const *chips, uint32_t count, const struct sp_emu_options *options,
                        struct sp_emu_machine **out);
/* Checks the text of a card. 0; -EINVAL: `why` says in one line what is wrong and which names are
 * known. */
int sp_emu_check_card(const char *text, char *why, size_t nbytes);
/* Adds a card to an open machine. Returns its index, -EINVAL or -ENOSPC. */
int sp_emu_add_card(struct sp_emu_machine *machine, const char *text);
/* Stops all jobs and closes all open objects. Mappings of the machine's memory stay valid. Calls of
 * other threads return first; blocking ones return -ENODEV. Later calls through the seam return
 * -ENODEV too. No later call may name the machine. */
void sp_emu_machine_close(struct sp_emu_machine *machine);
/* The seam of the machine; callable also after the machine is closed. */
const struct sp_kmd_ops *sp_emu_machine_ops(struct sp_emu_machine *machine);
/* Opens the render node of a card: a new file descriptor, or -errno. */
int sp_emu_open(struct sp_emu_machine *machine, uint32_t card);
/* The card of render node `fd`, or -EBADF. */
int sp_emu_fd_card(struct sp_emu_machine *machine, int fd);
/* 1 if ioctls on `fd` belong to this machine: a render node, or a dma-buf, syncobj or sync_file
 * that it made. In a forked child only a render node is recognised. */
int sp_emu_fd_is_ours(struct sp_emu_machine *machine, int fd);

/* Live objects. All counts are 0 when every render node and every other descriptor is closed. */
struct sp_emu_live {
    int64_t files;
    int64_t bos;
    int64_t bo_nbytes;
    int64_t mappings;
    int64_t contexts;
    int64_t bo_lists;
    int64_t syncobjs;
    int64_t fences;
    int64_t jobs;
    int64_t fds; /* dma-bufs, syncobjs, sync_files */
};
void sp_emu_live_counts(struct sp_emu_machine *machine, struct sp_emu_live *out);

/* Injection and inspection. Each function returns 0 or -EINVAL. */
/* The next `count` ioctls with number `nr` (0x00..0xff; bits 0-7 of the request) fail with -error
 * before they do anything. */
int sp_emu_fail_ioctl(struct sp_emu_machine *machine, uint32_t nr, uint32_t count, int error);
/* The next job of this card hangs; then `recovery` happens. */
int sp_emu_hang_next_job(struct sp_emu_machine *machine, uint32_t card, uint32_t recovery);
/* The next job of this card first reads unmapped memory at `va`. */
int sp_emu_fault_next_job(struct sp_emu_machine *machine, uint32_t card, uint64_t va);
/* A reset for an external reason: no context is guilty. */
int sp_emu_reset_card(struct sp_emu_machine *machine, uint32_t card, uint32_t vram_lost);
/* Removes the card: every ioctl returns -ENODEV, every fence signals with -ENODEV. */
int sp_emu_unplug_card(struct sp_emu_machine *machine, uint32_t card);
/* Jobs wait before they start until this is called with 0. */
int sp_emu_hold_jobs(struct sp_emu_machine *machine, uint32_t card, uint32_t hold);

/* Effect of a planned injection. */
enum sp_emu_action {
    SP_EMU_DO_FAIL = 1, /* the ioctl fails with -value before it does anything */
    SP_EMU_DO_RESET,    /* before the ioctl or job; value 1: VRAM is lost */
    SP_EMU_DO_UNPLUG,   /* before the ioctl or job */
    SP_EMU_DO_HANG,     /* the job hangs; value: enum sp_emu_recovery */
    SP_EMU_DO_FAULT,    /* the job first reads unmapped memory at `value` */
    SP_EMU_DO_SLOW,     /* the job takes `value` times as long */
    SP_EMU_DO_CORRUPT,  /* `seed` picks one dword that the job changed; it is xored with `value` */
    SP_EMU_ACTIONS
};

/* An injection starts at the at-th ioctl or job, counted from its planning, and lasts for `count`
 * of them. It counts ioctls whose number is in `nrs` (bit nr % 64 of nrs[nr / 64]), on any open of
 * the card. With `of_jobs` it counts jobs submitted to the card. A corruption waits for the next
 * job if this one changed nothing. The page of a job's FENCE chunk does not count as a change. */
struct sp_emu_planned {
    uint32_t action; /* enum sp_emu_action; FAIL is for ioctls, the last four are for jobs */
    uint32_t of_jobs;
    uint64_t at;    /* from 1 */
    uint64_t count; /* 0: no end */
    uint64_t nrs[4];
    uint64_t value;
    uint64_t seed;
};
int sp_emu_plan(struct sp_emu_machine *machine, uint32_t card, const struct sp_emu_planned *planned);
/* How often each planned action has happened on a card: SP_EMU_ACTIONS numbers, by enum
 * sp_emu_action. */
int sp_emu_plan_done(struct sp_emu_machine *machine, uint32_t card, uint64_t *counts);

/* A permanent defect of a card, placed where a real card would have it. `a` and `b` are its
 * parameters. */
enum sp_emu_flaw {
    SP_FLAW_OPEN = 0, /* opening the node fails with -a */
    SP_FLAW_DRIVER,   /* VERSION names another driver */
    SP_FLAW_FAMILY,   /* DEV_INFO: family a, external_rev b (0: the chip's own) */
    SP_FLAW_CHIP,     /* GFX and COMPUTE report IP version a: major << 16 | minor << 8 | revision */
    SP_FLAW_RING,     /* engine a (AMDGPU_HW_IP_*) is off */
    SP_FLAW_CAP,      /* GET_CAP of a returns 0; for syncobjs, their ioctls return -EOPNOTSUPP */
    SP_FLAW_ACCEL,    /* ACCEL_WORKING is 0 */
    SP_FLAW_FIRMWARE, /* no firmware is loaded */
    SP_FLAW_CLOCK,    /* the GPU's clock stands still */
    SP_FLAW_DRIFT,    /* the GPU's clock is a ppm fast and b ns ahead of CLOCK_MONOTONIC; both int64_t */
    SP_FLAW_FREQUENCY, /* DEV_INFO: gpu_counter_freq is a */
    SP_FLAW_VA,       /* GEM_VA refuses addresses below a */
    SP_FLAW_DIRTY,    /* new memory is not cleared */
    /* in domain a, bit b % 32 of the dword at b / 32 * 4 of each BO is stuck at 1 */
    SP_FLAW_BIT,
    SP_FLAW_LINE,     /* in domain a, address line b (12 or more) is stuck at 0 */
    SP_FLAW_FENCE,    /* the words of FENCE chunks are not written */
    SP_FLAW_INTERRUPT, /* no interrupt at a job's end: waits time out */
    SP_FLAW_RECOVERY, /* after a hang every context is refused */
    SP_FLAW_RESET,    /* after any reset, jobs hang on the rings of mask b of engine a (AMDGPU_HW_IP_*) */
    SP_FLAW_DEPENDENCY, /* jobs on the engines of mask a (1 << AMDGPU_HW_IP_*) ignore their dependencies */
    SP_FLAW_SDMA_FILL, /* fills are xored with a */
    SP_FLAW_SDMA_COPY, /* bit b of the byte at a of each copy is flipped */
    SP_FLAW_WRITE_DATA, /* written data is xored with a */
    SP_FLAW_COPY_DATA, /* copied data is xored with a */
    SP_FLAW_WAIT,     /* WAIT_REG_MEM and POLL_REGMEM do not wait */
    SP_FLAW_RELEASE,  /* RELEASE_MEM writes nothing */
    SP_FLAW_DISPATCH, /* dispatches start no waves */
    SP_FLAW_CODE,     /* dispatches whose code is in VRAM start no waves */
    SP_FLAW_IDS,      /* y and z of thread ids are swapped */
    SP_FLAW_WAVE64,   /* the upper 32 lanes get the ids of the lower 32 */
    SP_FLAW_LDS,      /* a barrier flips bit b of the byte at a */
    SP_FLAW_SCRATCH,  /* all waves of a group have the same scratch */
    SP_FLAW_USERPTR,  /* a submission takes a ns for each page of its userptrs */
    SP_FLAW_SLOTS,    /* an engine has 1/a of the scratch slots that TMPRING_SIZE gives it */
    SP_FLAW_MEM_SYNC, /* the copy engine hangs at the GCR_REQ that the kernel emits for EMIT_MEM_SYNC */
    SP_FLAW_GCR,      /* packets skip the invalidations of mask a (bits of GCR: 1 I, 2 K, 4 V, 8 GL1, 16 GL2) */
    SP_FLAW_OVERTAKE, /* a copy of the copy engine runs after the next one, whatever packets stand between */
    SP_FLAWS
};
/* Plants a flaw. Call it before the card is opened: existing objects do not change. -EINVAL:
 * unknown flaw. */
int sp_emu_plant(struct sp_emu_machine *machine, uint32_t card, uint32_t flaw, uint64_t a, uint64_t b);

/* Why a job was stopped. */
enum sp_emu_fault_kind {
    SP_FAULT_NONE = 0,
    SP_FAULT_UNMAPPED,    /* no page at va */
    SP_FAULT_RIGHTS,      /* a page without the right in `access` */
    SP_FAULT_UNLISTED,    /* a page of a BO that this job does not list */
    SP_FAULT_PACKET,      /* an unknown packet, or one with a wrong length */
    SP_FAULT_RESERVED,    /* a reserved bit is set in a packet, register or instruction */
    SP_FAULT_REGISTER,    /* a register that a user may not write on this generation */
    SP_FAULT_IB,          /* an unaligned or unpadded IB */
    SP_FAULT_DISPATCH,    /* registers that describe no launchable dispatch */
    SP_FAULT_OPCODE,      /* an instruction that does not exist, or that the emulator lacks */
    SP_FAULT_OPERAND,     /* an operand that the instruction cannot have */
    SP_FAULT_UNINITIALISED, /* an undefined value, or a register before its s_waitcnt */
    SP_FAULT_ALIGNMENT,
    SP_FAULT_LDS,         /* an access beyond the LDS allocation */
    SP_FAULT_TRAP,        /* s_trap, s_sethalt */
    SP_FAULT_TIMEOUT,     /* the job exceeded its time limit */
    SP_FAULT_STALE,       /* a cache holds stale code */
    SP_FAULT_ORDER,       /* unordered packets or jobs touch the same bytes */
    SP_FAULT_RACE         /* two unordered accesses, at least one of them a write */
};

/* The last fault of a card; same fields as struct sp_emu_fault, native/emu/fault.h. */
struct sp_emu_fault_report {
    uint32_t count; /* faults since the machine was opened; 0: all other fields are 0 */
    uint32_t kind;   /* enum sp_emu_fault_kind */
    uint32_t access; /* 1 read, 2 write, 4 run */
    uint32_t wave;
    uint64_t va;
    uint64_t pc;
    uint32_t group[3];
    uint32_t lane;
    uint64_t lane_ops; /* lane operations of all the card's jobs so far, with or without a fault */
    uint64_t vram_dispatches; /* dispatches so far whose code is in VRAM */
    /* dispatches so far with code elsewhere, which a card with VRAM fetches over its bus */
    uint64_t other_dispatches;
    char text[256];
};
/* Bus traffic of a card with memory of its own: instructions, scalar loads (arguments), packets,
 * other data that it reads, and its writes. */
enum sp_emu_bus { SP_BUS_CODE = 0, SP_BUS_SCALAR, SP_BUS_PACKETS, SP_BUS_DATA, SP_BUS_WRITTEN, SP_BUS_NOT };
/* Counters of a card's caches; all 0 if the card is lenient about caches. A fetch is 1 KiB. */
struct sp_emu_caches {
    uint64_t invalidations[5]; /* instruction, scalar, vector L0; GL1; GL2 */
    uint64_t flushes;      /* GL2_WB by packets and EMIT_MEM_SYNC, without the kernel's fences */
    uint64_t write_backs;  /* flushes and fences that found dirty bytes */
    uint64_t written_back; /* bytes */
    uint64_t fetched;      /* bytes that GL2 fetched from memory */
    /* of these, bytes that a card with memory of its own fetched from GTT */
    uint64_t fetched_remote;
    /* bytes over the bus of such a card, by enum sp_emu_bus; without uncached accesses of waves */
    uint64_t bus[5];
};
int sp_emu_cache_counts(struct sp_emu_machine *machine, uint32_t card, struct sp_emu_caches *out);
/* Counts `times` more evictions of a card's memory, as NUM_EVICTIONS reports them. */
int sp_emu_evict(struct sp_emu_machine *machine, uint32_t card, uint64_t times);
/* Pages of userptrs that the kernel has walked for submissions to this card: all pages of each
 * listed userptr. */
int sp_emu_userptr_pages(struct sp_emu_machine *machine, uint32_t card, uint64_t *out);
int sp_emu_last_fault(struct sp_emu_machine *machine, uint32_t card, struct sp_emu_fault_report *out);

/* Calls through the seam so far, over all machines in this process: ioctls, submissions (CS), and
 * their total time, waiting included. A driver's further time is its own. */
struct sp_emu_seam {
    uint64_t ioctls;
    uint64_t submissions;
    uint64_t ns;
};
void sp_emu_seam(struct sp_emu_seam *out);

/* Takes the oldest line out of the log, NUL-terminated and cut to nbytes. Returns its length;
 * -ENOENT: empty. The log keeps the newest 4096 lines. */
int sp_emu_trace_read(struct sp_emu_machine *machine, char *line, size_t nbytes);
#endif
