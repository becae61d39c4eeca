/* The emulated machine: AMD cards behind `struct sp_kmd_ops`. native/emu/README.md says what it
 * models.
 *
 * A render node is a real file descriptor, of one sparse memfd. Each open of a node has its own
 * open file description, whose file position identifies the open. A BO's mmap offset is an offset
 * in that memfd, so a plain mmap() maps the BO. dup, SCM_RIGHTS and close need no support. PRIME,
 * syncobj and sync_file descriptors are real too; their inodes identify them.
 *
 * All functions may be called from any thread. In a forked child the machine does not exist:
 * functions return -ENODEV, or -EINVAL if they name a card, and no object is alive. */
#ifndef SP_EMU_H
#define SP_EMU_H
#include "sp_base.h"
#include "sp_kmd.h"

/* Returns the version of the C interface of the extension `_emu`. It increases when the interface
 * changes. sparkle_drv.testing raises an error unless it finds the version that it needs. */
uint32_t sp_emu_version(void);

/* How the card recovers when a job faults or exceeds its time limit. */
enum sp_emu_recovery {
    /* the job's fence ends with -ETIME; its context is guilty; that context's other jobs end with
     * -ECANCELED */
    SP_EMU_RECOVER_RING = 0,
    SP_EMU_RECOVER_SOFT, /* the job's fence ends with -ENODATA; no context is guilty */
    SP_EMU_RECOVER_FULL, /* as SP_EMU_RECOVER_RING, and every ring is restarted */
    /* as SP_EMU_RECOVER_FULL; besides, the first 16 MiB of each BO in VRAM are filled with 0xdd,
     * and all unfinished jobs end with -ECANCELED */
    SP_EMU_RECOVER_VRAM_LOST
};

/* Leniencies: checks that are turned off for foreign drivers (SPARKLE_EMU_MODE=lenient).
 * native/emu/README.md lists each with its reason. */
enum sp_emu_lenient {
    SP_LENIENT_UNLISTED = 1,      /* a job may use BOs that it does not list */
    SP_LENIENT_UNINITIALISED = 2, /* registers, LDS and memory read before a write are 0 */
    /* reserved bits may be set, and a vector instruction may read more scalars than the hardware
     * allows */
    SP_LENIENT_RESERVED = 4,
    SP_LENIENT_PADDING = 8,       /* an IB may begin and end unaligned */
    SP_LENIENT_UNPROGRAMMED = 16, /* a dispatch may use registers that its job has not programmed */
    /* registers that no table declares may be written; forbidden registers may not */
    SP_LENIENT_REGISTER = 32,
    SP_LENIENT_ORDER = 64,    /* packets and jobs that may overlap run one after another */
    SP_LENIENT_CACHES = 128,  /* there are no caches: every reader sees memory at once */
    SP_LENIENT_DEALLOC = 256, /* VGPRs may be freed while stores to scratch are under way */
    SP_LENIENT_RACES = 512    /* several waves may access the same bytes unordered */
};

struct sp_emu_fault_report;
/* Options of a machine. In every field 0 means the default. */
struct sp_emu_options {
    uint32_t lenient; /* bits of enum sp_emu_lenient; 0: strict */
    /* number of host threads that execute one dispatch; default 1, which is deterministic */
    uint32_t threads;
    /* minor KMS version of cards whose text in `chips` names none; default 54 */
    uint32_t kms_minor;
    uint32_t recovery;     /* enum sp_emu_recovery */
    uint64_t job_limit_ns; /* limit of the emulator's work on a job, in CPU time; default 10 s */
    /* upper limit of two random delays of each job, before it starts and before its end becomes
     * visible; default 0 */
    uint64_t delay_ns;
    uint64_t seed; /* seed of the random delays */
    /* vram_nbytes, visible_nbytes, gtt_nbytes: sizes of VRAM, CPU-visible VRAM and GTT, for cards
     * whose text in `chips` does not give them. Default: those of the chip. */
    uint64_t vram_nbytes;
    uint64_t visible_nbytes;
    uint64_t gtt_nbytes;
    uint32_t trace; /* 1: log ioctls and jobs, 2: packets and instructions too */
    /* 1: a stale read from a cache is a fault that names the missing invalidation */
    uint32_t name_stale;
    /* 1: caches above GL2 keep their lines at the beginning of an IB, where cards invalidate them
     * according to radeonsi; for drivers that do not rely on it */
    uint32_t keep_caches;
    /* 1: contexts above priority NORMAL are allowed, as with CAP_SYS_NICE */
    uint32_t sys_nice;
    /* Called at each fault by the job's thread, which holds the machine's lock. NULL: no call. */
    void (*on_fault)(uint32_t card, const struct sp_emu_fault_report *fault);
};

struct sp_emu_machine;
/* Opens a machine. `chips` has a text per card, 1 to 32 of them: a chip's name, then options after
 * colons, such as "gfx1103:kms-3.42:bar-256M" (native/emu/README.md lists them). Returns 0; -EINVAL
 * if sp_emu_check_card refuses a text; -EPERM or -ENOSYS if process_vm_readv and process_vm_writev
 * are forbidden. */
int sp_emu_machine_open(const char *const *chips, uint32_t count, const struct sp_emu_options *options,
                        struct sp_emu_machine **out);
/* Checks the text that describes a card, as sp_emu_machine_open takes it. Returns 0, or -EINVAL
 * with one line in `why` that says what is wrong and which names are known. */
int sp_emu_check_card(const char *text, char *why, size_t nbytes);
/* Adds a card to an open machine. Returns its index, -EINVAL or -ENOSPC. */
int sp_emu_add_card(struct sp_emu_machine *machine, const char *text);
/* Closes a machine: stops all jobs and closes all open objects. Mappings of the machine's memory
 * stay valid. Calls of other threads return first; blocked calls return -ENODEV. Later calls
 * through the seam return -ENODEV too. No later call of these functions may name the machine. */
void sp_emu_machine_close(struct sp_emu_machine *machine);
/* Returns the seam of the machine, which may be called even after the machine is closed. */
const struct sp_kmd_ops *sp_emu_machine_ops(struct sp_emu_machine *machine);
/* Opens the render node of a card. Returns a new file descriptor or -errno. */
int sp_emu_open(struct sp_emu_machine *machine, uint32_t card);
/* Returns the card of render node `fd`, or -EBADF. */
int sp_emu_fd_card(struct sp_emu_machine *machine, int fd);
/* Returns 1 if ioctls on `fd` belong to this machine: `fd` is a render node, or a dma-buf, syncobj
 * or sync_file that the machine made. In a forked child only a render node is recognised. */
int sp_emu_fd_is_ours(struct sp_emu_machine *machine, int fd);

/* Numbers of live objects. All are 0 when every render node and every other descriptor is
 * closed. */
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
    int64_t fds; /* descriptors of dma-bufs, syncobjs and sync_files */
};
void sp_emu_live_counts(struct sp_emu_machine *machine, struct sp_emu_live *out);

/* Makes the next `count` ioctls with number `nr` (0x00..0xff; bits 0-7 of the request) fail with
 * -error before they do anything. */
int sp_emu_fail_ioctl(struct sp_emu_machine *machine, uint32_t nr, uint32_t count, int error);
/* Makes the next job of this card hang; then the card recovers by `recovery` (enum
 * sp_emu_recovery). */
int sp_emu_hang_next_job(struct sp_emu_machine *machine, uint32_t card, uint32_t recovery);
/* Makes the next job of this card begin with a read of unmapped memory at `va`. */
int sp_emu_fault_next_job(struct sp_emu_machine *machine, uint32_t card, uint64_t va);
/* Resets a card for an external reason: no context is guilty. */
int sp_emu_reset_card(struct sp_emu_machine *machine, uint32_t card, uint32_t vram_lost);
/* Removes a card: every ioctl returns -ENODEV, and every fence signals with -ENODEV. */
int sp_emu_unplug_card(struct sp_emu_machine *machine, uint32_t card);
/* With `hold` 1, no job of this card starts, until a call with `hold` 0. */
int sp_emu_hold_jobs(struct sp_emu_machine *machine, uint32_t card, uint32_t hold);

/* What a planned injection does. */
enum sp_emu_action {
    SP_EMU_DO_FAIL = 1, /* the ioctl fails with -value before it does anything */
    SP_EMU_DO_RESET,    /* the card is reset before the ioctl or job; value 1: VRAM is lost */
    SP_EMU_DO_UNPLUG,   /* the card is removed before the ioctl or job */
    SP_EMU_DO_HANG,     /* the job hangs; `value` is an enum sp_emu_recovery */
    SP_EMU_DO_FAULT,    /* the job first reads unmapped memory at `value` */
    SP_EMU_DO_SLOW,     /* the job takes `value` times as long */
    /* one dword that the job has written, chosen at random by the injection's `seed`, is xored with
     * `value` */
    SP_EMU_DO_CORRUPT,
    SP_EMU_ACTIONS
};

/* An injection. It starts at ioctl or job number `at`, counted from the moment of planning, and
 * lasts for `count` of them. It counts ioctls whose number is in `nrs` (bit nr % 64 of nrs[nr /
 * 64]), on any open of the card. With `of_jobs` it counts jobs submitted to the card.
 * SP_EMU_DO_CORRUPT skips a job that changed no memory and applies to the next job. Changes in the
 * page of a job's FENCE chunk do not count. */
struct sp_emu_planned {
    /* an enum sp_emu_action; SP_EMU_DO_FAIL is only for ioctls, and SP_EMU_DO_HANG to
     * SP_EMU_DO_CORRUPT are only for jobs */
    uint32_t action;
    uint32_t of_jobs;
    /* number of the first ioctl or job that the injection changes; 1: the next one */
    uint64_t at;
    uint64_t count; /* number of ioctls or jobs that the injection changes; 0: it never ends */
    uint64_t nrs[4];
    uint64_t value;
    uint64_t seed;
};
int sp_emu_plan(struct sp_emu_machine *machine, uint32_t card, const struct sp_emu_planned *planned);
/* Gives how often each planned action has happened on a card: SP_EMU_ACTIONS numbers, indexed by
 * enum sp_emu_action. */
int sp_emu_plan_done(struct sp_emu_machine *machine, uint32_t card, uint64_t *counts);

/* Flaws: permanent defects of a card, each placed where a real card would have it. `a` and `b` are
 * its parameters. */
enum sp_emu_flaw {
    SP_FLAW_OPEN = 0, /* opening the card's render node fails with -a */
    SP_FLAW_DRIVER,   /* VERSION names another driver */
    SP_FLAW_FAMILY,   /* DEV_INFO reports family `a`, external_rev `b` (0: the chip's own) */
    /* HW_IP_INFO reports IP version `a` for GFX and COMPUTE: major << 16 | minor << 8 | revision */
    SP_FLAW_CHIP,
    SP_FLAW_RING,     /* engine `a` (AMDGPU_HW_IP_*) is off */
    /* GET_CAP of capability `a` (DRM_CAP_*) returns 0. If `a` is DRM_CAP_SYNCOBJ, the ioctls of
     * syncobjs return -EOPNOTSUPP, too. */
    SP_FLAW_CAP,
    SP_FLAW_ACCEL,    /* ACCEL_WORKING is 0 */
    SP_FLAW_FIRMWARE, /* no firmware is loaded */
    SP_FLAW_CLOCK,    /* the GPU's clock stands still */
    /* the GPU's clock is `a` ppm fast and `b` ns ahead of CLOCK_MONOTONIC; both are int64_t */
    SP_FLAW_DRIFT,
    SP_FLAW_FREQUENCY, /* DEV_INFO reports `a` as gpu_counter_freq */
    SP_FLAW_VA,        /* GEM_VA refuses addresses below `a` */
    SP_FLAW_DIRTY,     /* new memory is not cleared */
    /* Bit b % 32 of the dword at offset b / 32 * 4 of each BO is stuck at 1, if the BO is in memory
     * domain `a` (AMDGPU_GEM_DOMAIN_*). */
    SP_FLAW_BIT,
    /* in memory domain `a` (AMDGPU_GEM_DOMAIN_*), address line `b` (12 or more) is stuck at 0 */
    SP_FLAW_LINE,
    SP_FLAW_FENCE,     /* no job writes its sequence number to the BO of its FENCE chunk */
    SP_FLAW_INTERRUPT, /* a job's end raises no interrupt, so waits time out */
    /* once the card has recovered, except by SP_EMU_RECOVER_SOFT, every submission to it returns
     * -ECANCELED */
    SP_FLAW_RECOVERY,
    /* after any reset, jobs hang on the rings of mask `b` of engine `a` (AMDGPU_HW_IP_*) */
    SP_FLAW_RESET,
    /* jobs on the engines of mask `a` (1 << AMDGPU_HW_IP_*) ignore their dependencies */
    SP_FLAW_DEPENDENCY,
    SP_FLAW_SDMA_FILL, /* the value of an SDMA fill is xored with `a` */
    /* each SDMA copy flips bit `b` of the byte at offset `a` of its destination */
    SP_FLAW_SDMA_COPY,
    SP_FLAW_WRITE_DATA, /* data that a WRITE_DATA packet writes is xored with `a` */
    SP_FLAW_COPY_DATA, /* data that a COPY_DATA packet copies is xored with `a` */
    SP_FLAW_WAIT,     /* WAIT_REG_MEM and POLL_REGMEM do not wait */
    SP_FLAW_RELEASE,  /* RELEASE_MEM writes nothing */
    SP_FLAW_DISPATCH, /* dispatches start no waves */
    SP_FLAW_CODE,     /* dispatches whose code is in VRAM start no waves */
    SP_FLAW_IDS,      /* y and z of thread ids are swapped */
    SP_FLAW_WAVE64,   /* the upper 32 lanes get the ids of the lower 32 */
    SP_FLAW_LDS,      /* a barrier flips bit `b` of the LDS byte at `a` */
    SP_FLAW_SCRATCH,  /* all waves of a group have the same scratch */
    SP_FLAW_USERPTR,  /* a submission takes `a` ns for each page of its userptrs */
    SP_FLAW_SLOTS,    /* an engine has 1/a of the scratch slots that TMPRING_SIZE gives it */
    /* the copy engine hangs at the GCR_REQ that the kernel driver emits for EMIT_MEM_SYNC */
    SP_FLAW_MEM_SYNC,
    /* packets do not invalidate the caches of mask `a`: 1 instruction cache, 2 scalar cache, 4
     * vector L0, 8 GL1, 16 GL2 */
    SP_FLAW_GCR,
    /* the copy engine runs a copy only after the copy that follows it, even if other packets are
     * between the two */
    SP_FLAW_OVERTAKE,
    SP_FLAWS
};
/* Gives a card a flaw. To be called before the card is opened, because contexts and BOs that exist
 * already do not get the flaw. Returns 0, or -EINVAL for an unknown flaw. */
int sp_emu_plant(struct sp_emu_machine *machine, uint32_t card, uint32_t flaw, uint64_t a, uint64_t b);

/* Reasons why a job was stopped. */
enum sp_emu_fault_kind {
    SP_FAULT_NONE = 0,
    SP_FAULT_UNMAPPED,      /* no page is mapped at va */
    SP_FAULT_RIGHTS,        /* the page lacks the right in `access` */
    SP_FAULT_UNLISTED,      /* the page is of a BO that this job does not list */
    SP_FAULT_PACKET,        /* an unknown packet, or one with a wrong length */
    SP_FAULT_RESERVED,      /* a reserved bit is set in a packet, register or instruction */
    SP_FAULT_REGISTER,      /* a register that a user must not write on this generation */
    /* an IB that is unaligned, empty or nested too deeply, or that ends inside a packet */
    SP_FAULT_IB,
    SP_FAULT_DISPATCH,      /* the registers describe no dispatch that could be launched */
    SP_FAULT_OPCODE,        /* an instruction that does not exist, or that the emulator lacks */
    SP_FAULT_OPERAND,       /* an operand that the instruction cannot have */
    /* A wave or packet uses an undefined value, or a wave reads a register before the s_waitcnt of
     * the load that writes it. */
    SP_FAULT_UNINITIALISED,
    SP_FAULT_ALIGNMENT,
    SP_FAULT_LDS,     /* an access beyond the LDS allocation */
    SP_FAULT_TRAP,    /* a wave executed s_trap or s_sethalt */
    SP_FAULT_TIMEOUT, /* the job exceeded its time limit */
    SP_FAULT_STALE,   /* a cache holds stale code */
    SP_FAULT_ORDER,   /* unordered packets or jobs touch the same bytes */
    /* two waves access the same bytes unordered, and at least one of them writes */
    SP_FAULT_RACE
};

/* The last fault of a card. The fields are those of struct sp_emu_fault (native/emu/fault.h). */
struct sp_emu_fault_report {
    /* number of faults since the machine was opened; if it is 0, so are all other fields */
    uint32_t count;
    uint32_t kind;   /* enum sp_emu_fault_kind */
    uint32_t access; /* 1: read, 2: write, 4: execute */
    uint32_t wave;
    uint64_t va;
    uint64_t pc;
    uint32_t group[3];
    uint32_t lane;
    /* lane operations of all jobs of the card so far, with or without a fault; a vector instruction
     * has one for each active lane */
    uint64_t lane_ops;
    uint64_t vram_dispatches; /* dispatches so far whose code is in VRAM */
    /* dispatches so far whose code is not in VRAM; a card with VRAM fetches such code over its
     * bus */
    uint64_t other_dispatches;
    char text[256];
};
/* Kinds of bus traffic of a card with memory of its own: instructions, scalar loads (arguments),
 * packets, other reads, and writes. SP_BUS_NOT: the access does not use the bus. */
enum sp_emu_bus { SP_BUS_CODE = 0, SP_BUS_SCALAR, SP_BUS_PACKETS, SP_BUS_DATA, SP_BUS_WRITTEN, SP_BUS_NOT };
/* Counters of a card's caches. All are 0 if the card is lenient about caches. GL2 fetches 1 KiB of
 * memory at a time. */
struct sp_emu_caches {
    /* number of invalidations of the instruction cache, scalar cache, vector L0, GL1 and GL2, in
     * this order */
    uint64_t invalidations[5];
    /* GL2 flushes by packets (GL2_WB) and by EMIT_MEM_SYNC; flushes of the kernel driver's fences
     * are not counted */
    uint64_t flushes;
    /* number of flushes, and of the kernel driver's fences, at which GL2 had dirty bytes to write
     * back */
    uint64_t write_backs;
    uint64_t written_back; /* bytes that GL2 wrote back to memory */
    uint64_t fetched;      /* bytes that GL2 fetched from memory */
    /* part of `fetched` that a card with memory of its own fetched from GTT */
    uint64_t fetched_remote;
    /* bytes over the bus of a card with memory of its own, by enum sp_emu_bus; uncached accesses of
     * waves are not counted */
    uint64_t bus[5];
};
int sp_emu_cache_counts(struct sp_emu_machine *machine, uint32_t card, struct sp_emu_caches *out);
/* Adds `times` evictions to those that NUM_EVICTIONS reports for a card. */
int sp_emu_evict(struct sp_emu_machine *machine, uint32_t card, uint64_t times);
/* Gives the number of userptr pages that the emulated kernel driver has checked for submissions to
 * this card. A submission checks all pages of each userptr in its BO list. */
int sp_emu_userptr_pages(struct sp_emu_machine *machine, uint32_t card, uint64_t *out);
int sp_emu_last_fault(struct sp_emu_machine *machine, uint32_t card, struct sp_emu_fault_report *out);

/* Counts of calls through the seam so far, over all machines in this process: ioctls, submissions
 * (CS), and the total time of all calls, waiting included. The rest of the time that a driver takes
 * is spent in its own code. */
struct sp_emu_seam {
    uint64_t ioctls;
    uint64_t submissions;
    uint64_t ns;
};
void sp_emu_seam(struct sp_emu_seam *out);

/* Removes the oldest line from the log and copies it to `line`, NUL-terminated and cut to nbytes.
 * Returns its length, or -ENOENT if the log is empty. The log keeps the newest 4096 lines. */
int sp_emu_trace_read(struct sp_emu_machine *machine, char *line, size_t nbytes);
#endif
