/* The emulated machine: AMD cards behind `struct sp_kmd_ops`. What it models and what not: native/emu/README.md.
 *
 * A render node is a real file descriptor: a description of one sparse memfd, told from others by its file position. So a
 * BO's mmap offset is the memfd's and a plain mmap() maps it; dup, SCM_RIGHTS and close need no help. PRIME, syncobj
 * and sync_file descriptors are real and known by inode.
 *
 * All functions may be called from any thread. In a forked child the machine is gone: -ENODEV, -EINVAL where a card is
 * named, nothing alive. */
#ifndef SP_EMU_H
#define SP_EMU_H
#include "sp_base.h"
#include "sp_kmd.h"

/* Grows when the interface between `_emu` and its caller changes; sparkle_drv.testing compares it before use. */
uint32_t sp_emu_version(void);

/* What becomes of the GPU when a job overstays its limit or faults. */
enum sp_emu_recovery {
    SP_EMU_RECOVER_RING = 0, /* its fence -ETIME, its context guilty, the context's other jobs -ECANCELED */
    SP_EMU_RECOVER_SOFT,     /* its fence -ENODATA, nobody guilty */
    SP_EMU_RECOVER_FULL,     /* as RING, and every ring starts anew */
    SP_EMU_RECOVER_VRAM_LOST /* as FULL; BOs in VRAM begin with 0xdd, everybody's unfinished jobs -ECANCELED */
};

/* Leniencies for foreign drivers (SPARKLE_EMU_MODE=lenient); each is listed, with why, in native/emu/README.md. */
enum sp_emu_lenient {
    SP_LENIENT_UNLISTED = 1,      /* BOs that the job does not list */
    SP_LENIENT_UNINITIALISED = 2, /* registers, LDS and memory read before written are 0 */
    SP_LENIENT_RESERVED = 4,      /* reserved bits set; more scalars in a vector instruction than it can read */
    SP_LENIENT_PADDING = 8,
    SP_LENIENT_UNPROGRAMMED = 16, /* a dispatch may use registers that its job has not programmed */
    SP_LENIENT_REGISTER = 32,     /* registers that no table declares may be written; forbidden ones may not */
    SP_LENIENT_ORDER = 64,        /* packets and jobs that may overlap run one after another */
    SP_LENIENT_CACHES = 128,      /* there are none: everybody sees memory at once */
    SP_LENIENT_DEALLOC = 256,     /* VGPRs are given back while stores to scratch are under way */
    SP_LENIENT_RACES = 512        /* accesses of several waves with no order between them */
};

struct sp_emu_fault_report;
/* 0 means the default everywhere. */
struct sp_emu_options {
    uint32_t lenient;       /* bits of enum sp_emu_lenient; 0: strict */
    uint32_t threads;       /* that execute one dispatch; default 1, which is deterministic */
    uint32_t kms_minor;     /* of cards whose text names none; default 54 */
    uint32_t recovery;      /* enum sp_emu_recovery */
    uint64_t job_limit_ns;  /* default 10 s */
    uint64_t delay_ns;      /* jobs start, and then complete, late by a random time up to this each; default none */
    uint64_t seed;          /* of those times */
    uint64_t vram_nbytes;   /* these three are for cards whose text does not say; they default to the chip's */
    uint64_t visible_nbytes;
    uint64_t gtt_nbytes;
    uint32_t trace;         /* 1: ioctls and jobs, 2: packets and instructions too */
    uint32_t name_stale;    /* 1: a read of old bytes from a cache is a fault that names the missing invalidation */
    uint32_t sys_nice;      /* 1: as with CAP_SYS_NICE: contexts above NORMAL are allowed */
    /* Called with each fault when it happens, by the thread of the job, which holds the machine's lock; NULL: nobody. */
    void (*on_fault)(uint32_t card, const struct sp_emu_fault_report *fault);
};

struct sp_emu_machine;
/* `chips`: a text for each card, 1 to 32 of them: a chip's name, and options after colons, "gfx1103:kms-3.42:bar-256M"
 * (native/emu/README.md has them). -EINVAL for what sp_emu_check_card refuses; -EPERM or -ENOSYS where process_vm_readv and
 * process_vm_writev are not allowed. */
int sp_emu_machine_open(const char *const *chips, uint32_t count, const struct sp_emu_options *options,
                        struct sp_emu_machine **out);
/* Whether a text names a card: 0, or -EINVAL with what is wrong and what is known, in one line. */
int sp_emu_check_card(const char *text, char *why, size_t nbytes);
/* One more card of a machine that is open: its index, -EINVAL, or -ENOSPC. */
int sp_emu_add_card(struct sp_emu_machine *machine, const char *text);
/* Stops all jobs, closes what is open. Mappings of its memory stay valid. Calls of other threads that are under way come
 * back first, blocking ones with -ENODEV; by the seam more may come, which get that, too; none may that names the machine. */
void sp_emu_machine_close(struct sp_emu_machine *machine);
/* The seam; stays callable for ever. */
const struct sp_kmd_ops *sp_emu_machine_ops(struct sp_emu_machine *machine);
/* Opens the render node of a card: a new file descriptor, or -errno. */
int sp_emu_open(struct sp_emu_machine *machine, uint32_t card);
/* The card whose render node `fd` is, or -EBADF. */
int sp_emu_fd_card(struct sp_emu_machine *machine, int fd);
/* 1 when ioctls on `fd` belong to this machine: a render node, or a dma-buf, syncobj or sync_file of its making. In a
 * forked child only a render node is recognised. */
int sp_emu_fd_is_ours(struct sp_emu_machine *machine, int fd);

/* Objects alive; all 0 when every render node is closed and every descriptor handed out is, too. */
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

/* Injection, and looking. Each returns 0 or -EINVAL. */
/* The next `count` ioctls with number `nr` (0x00..0xff; bits 0-7 of the request) fail with -error before they do anything. */
int sp_emu_fail_ioctl(struct sp_emu_machine *machine, uint32_t nr, uint32_t count, int error);
/* The next job that this card is given never ends by itself; then `recovery` happens. */
int sp_emu_hang_next_job(struct sp_emu_machine *machine, uint32_t card, uint32_t recovery);
/* The next job that this card is given reads unmapped memory at `va` first thing. */
int sp_emu_fault_next_job(struct sp_emu_machine *machine, uint32_t card, uint64_t va);
/* A reset for a reason outside: nobody is guilty. */
int sp_emu_reset_card(struct sp_emu_machine *machine, uint32_t card, uint32_t vram_lost);
/* The card is gone: every ioctl -ENODEV, every fence signals with that. */
int sp_emu_unplug_card(struct sp_emu_machine *machine, uint32_t card);
/* Jobs wait before they start until this is called with 0. */
int sp_emu_hold_jobs(struct sp_emu_machine *machine, uint32_t card, uint32_t hold);

/* What happens when the moment of a planned injection comes. */
enum sp_emu_action {
    SP_EMU_DO_FAIL = 1, /* the ioctl fails with -value before it does anything */
    SP_EMU_DO_RESET,    /* before the ioctl or job; value 1: VRAM is lost */
    SP_EMU_DO_UNPLUG,   /* before the ioctl or job */
    SP_EMU_DO_HANG,     /* the job never ends by itself; value: enum sp_emu_recovery */
    SP_EMU_DO_FAULT,    /* the job reads unmapped memory at `value` first thing */
    SP_EMU_DO_SLOW,     /* the job takes `value` times as long as it does */
    SP_EMU_DO_CORRUPT,  /* of the dwords that the job changes, one, chosen by `seed`, is xored with `value` */
    SP_EMU_ACTIONS
};

/* Counted from when it is planned: the at-th ioctl whose number is in `nrs` (bit nr % 64 of nrs[nr / 64]), made on any open
 * of the card, or with `of_jobs` the at-th job submitted to it; and the `count` - 1 after that one. A corruption that finds
 * nothing changed is for the next job; what jobs write to say that they are done (the page of their FENCE chunk) does not count. */
struct sp_emu_planned {
    uint32_t action; /* enum sp_emu_action; FAIL is for ioctls, the last four are for jobs */
    uint32_t of_jobs;
    uint64_t at;    /* from 1 */
    uint64_t count; /* 0: for ever */
    uint64_t nrs[4];
    uint64_t value;
    uint64_t seed;
};
int sp_emu_plan(struct sp_emu_machine *machine, uint32_t card, const struct sp_emu_planned *planned);
/* How often each action has happened on a card by plan: SP_EMU_ACTIONS numbers, by enum sp_emu_action. */
int sp_emu_plan_done(struct sp_emu_machine *machine, uint32_t card, uint64_t *counts);

/* What is broken in a card for good, each where it would be in a real one; `a` and `b` as said. */
enum sp_emu_flaw {
    SP_FLAW_OPEN = 0, /* opening the node fails with -a */
    SP_FLAW_DRIVER,   /* VERSION names another driver */
    SP_FLAW_FAMILY,   /* DEV_INFO: family a, external_rev b (0: the chip's own) */
    SP_FLAW_CHIP,     /* the IP version of GFX and COMPUTE is a: major << 16 | minor << 8 | revision */
    SP_FLAW_RING,     /* engine a (AMDGPU_HW_IP_*) is off */
    SP_FLAW_CAP,      /* GET_CAP of a: 0; of syncobjs, their ioctls -EOPNOTSUPP */
    SP_FLAW_ACCEL,    /* ACCEL_WORKING is 0 */
    SP_FLAW_FIRMWARE, /* no firmware is loaded */
    SP_FLAW_CLOCK,    /* the GPU's clock stands still */
    SP_FLAW_DRIFT,    /* the GPU's clock is a ppm faster than CLOCK_MONOTONIC, and b ns ahead; both int64_t */
    SP_FLAW_FREQUENCY, /* DEV_INFO: gpu_counter_freq is a */
    SP_FLAW_VA,       /* GEM_VA refuses addresses below a */
    SP_FLAW_DIRTY,    /* new memory is not cleared */
    SP_FLAW_BIT,      /* domain a: bit b % 32 of the dword at b / 32 * 4 of each BO is stuck at 1 */
    SP_FLAW_LINE,     /* domain a: address line b (12 or more) is stuck at 0 */
    SP_FLAW_FENCE,    /* the words of FENCE chunks are not written */
    SP_FLAW_INTERRUPT, /* nobody hears of a job's end: waits time out */
    SP_FLAW_RECOVERY, /* after a hang no context is taken any more */
    SP_FLAW_RESET,    /* after any reset, jobs on the rings of mask b of engine a (AMDGPU_HW_IP_*) hang, nothing else */
    SP_FLAW_DEPENDENCY, /* jobs on the engines of mask a (1 << AMDGPU_HW_IP_*) do not wait for those they depend on */
    SP_FLAW_SDMA_FILL, /* fills are xored with a */
    SP_FLAW_SDMA_COPY, /* bit b of the byte at a of each copy is flipped */
    SP_FLAW_WRITE_DATA, /* xored with a */
    SP_FLAW_COPY_DATA, /* xored with a */
    SP_FLAW_WAIT,     /* WAIT_REG_MEM and POLL_REGMEM do not wait */
    SP_FLAW_RELEASE,  /* RELEASE_MEM writes nothing */
    SP_FLAW_DISPATCH, /* dispatches start no waves */
    SP_FLAW_CODE,     /* dispatches whose code is in VRAM start no waves */
    SP_FLAW_IDS,      /* y and z of thread ids change places */
    SP_FLAW_WAVE64,   /* the upper 32 lanes have the ids of the lower */
    SP_FLAW_LDS,      /* a barrier flips bit b of the byte at a */
    SP_FLAW_SCRATCH,  /* all waves of a group have the same scratch */
    SP_FLAW_USERPTR,  /* a submission takes a ns for each page of the userptrs that it lists */
    SP_FLAW_SLOTS,    /* an engine has 1/a of the scratch slots that TMPRING_SIZE gives it */
    SP_FLAW_MEM_SYNC, /* the copy engine hangs at the GCR_REQ that the kernel emits for EMIT_MEM_SYNC */
    SP_FLAW_GCR,      /* packets leave out the invalidations of mask a (bits of GCR: 1 I, 2 K, 4 V, 8 GL1, 16 GL2) */
    SP_FLAW_OVERTAKE, /* a copy of the copy engine is overtaken by the next one, whatever stands between the two */
    SP_FLAWS
};
/* Plants one; -EINVAL for what is none. Before the card is opened: what was made earlier stays as it was. */
int sp_emu_plant(struct sp_emu_machine *machine, uint32_t card, uint32_t flaw, uint64_t a, uint64_t b);

/* Why a job was stopped. */
enum sp_emu_fault_kind {
    SP_FAULT_NONE = 0,
    SP_FAULT_UNMAPPED,    /* no page at va */
    SP_FAULT_RIGHTS,      /* a page without the right that `access` asks for */
    SP_FAULT_UNLISTED,    /* a page of a BO that this job does not list */
    SP_FAULT_PACKET,      /* unknown packet, or one with a wrong length */
    SP_FAULT_RESERVED,    /* a reserved bit is set in a packet, register or instruction */
    SP_FAULT_REGISTER,    /* a register that this generation does not let a user write */
    SP_FAULT_IB,          /* an IB unaligned or not padded */
    SP_FAULT_DISPATCH,    /* registers that describe no launchable dispatch */
    SP_FAULT_OPCODE,      /* an instruction that does not exist, or that the emulator lacks */
    SP_FAULT_OPERAND,     /* an operand that the instruction cannot have */
    SP_FAULT_UNINITIALISED, /* what nobody has written, or a register before its s_waitcnt */
    SP_FAULT_ALIGNMENT,
    SP_FAULT_LDS,         /* beyond the allocation */
    SP_FAULT_TRAP,        /* s_trap, s_sethalt */
    SP_FAULT_TIMEOUT,     /* the job's time limit */
    SP_FAULT_STALE,       /* code that a cache holds is not what memory holds */
    SP_FAULT_ORDER,       /* packets or jobs that nothing orders touch the same bytes */
    SP_FAULT_RACE         /* two accesses with no order between them, one of which writes */
};

/* The last fault of a card; the fields of struct sp_emu_fault, native/emu/fault.h. */
struct sp_emu_fault_report {
    uint32_t count; /* faults since the machine was opened; 0: the rest is 0 */
    uint32_t kind;   /* enum sp_emu_fault_kind */
    uint32_t access; /* 1 read, 2 write, 4 run */
    uint32_t wave;
    uint64_t va;
    uint64_t pc;
    uint32_t group[3];
    uint32_t lane;
    uint64_t lane_ops; /* executed by all jobs of the card so far, whether or not anything failed; */
    uint64_t vram_dispatches; /* so are these: dispatches whose code is in VRAM, ... */
    uint64_t other_dispatches; /* ... and elsewhere, which a card with memory of its own fetches over its bus */
    char text[256];
};
/* What a card with memory of its own moves over its bus: instructions, scalar loads (arguments), packets and other data that it
 * reads, and what it writes. */
enum sp_emu_bus { SP_BUS_CODE = 0, SP_BUS_SCALAR, SP_BUS_PACKETS, SP_BUS_DATA, SP_BUS_WRITTEN, SP_BUS_NOT };
/* What the caches of a card have done so far; all 0 where lenient about them. 1 KiB is fetched at once. */
struct sp_emu_caches {
    uint64_t invalidations[5]; /* instruction, scalar, vector L0; GL1; GL2 */
    uint64_t flushes;      /* GL2_WB asked for, by packets and EMIT_MEM_SYNC: not the kernel's fences */
    uint64_t write_backs;  /* of these and fences, those that found something to write */
    uint64_t written_back; /* bytes */
    uint64_t fetched;      /* bytes that GL2 took from memory; */
    uint64_t fetched_remote; /* of these, from GTT by a card that has memory of its own */
    uint64_t bus[5]; /* bytes over the bus of such a card, by enum sp_emu_bus; but for what waves do uncached */
};
int sp_emu_cache_counts(struct sp_emu_machine *machine, uint32_t card, struct sp_emu_caches *out);
/* So many times more the kernel has moved memory of a card for want of room, as NUM_EVICTIONS tells. */
int sp_emu_evict(struct sp_emu_machine *machine, uint32_t card, uint64_t times);
/* Pages of userptrs that the kernel has walked for submissions to this card: all those of each userptr in a list. */
int sp_emu_userptr_pages(struct sp_emu_machine *machine, uint32_t card, uint64_t *out);
int sp_emu_last_fault(struct sp_emu_machine *machine, uint32_t card, struct sp_emu_fault_report *out);

/* What went through the seam so far, of all machines in this process: its callers' ioctls, those that submit (CS), and how
 * long they were inside, waiting included. What a driver takes beyond that is its own. */
struct sp_emu_seam {
    uint64_t ioctls;
    uint64_t submissions;
    uint64_t ns;
};
void sp_emu_seam(struct sp_emu_seam *out);

/* Takes the oldest line out of the log (NUL-terminated, cut to nbytes): its length, or -ENOENT when there is none. When
 * nobody reads, the oldest of 4096 lines make room. */
int sp_emu_trace_read(struct sp_emu_machine *machine, char *line, size_t nbytes);
#endif
