/* One wave and its group: the state that instructions read and change. What an operand is, is in operand.h.
 * Nothing here knows of dispatch registers, packets or the functions of instructions. */
#ifndef SP_EMU_WAVE_H
#define SP_EMU_WAVE_H
#include "emu/gen/isa_ops.h"
#include "emu/exec.h"
#include "emu/isa/inst.h"
#include <errno.h>
#include <stdbool.h>

enum { SP_VCC = 106, SP_EXEC = 126, SP_LANES = 64, SP_SGPRS = 128, SP_VGPRS = 256, SP_PENDING = 128,
       SP_ORIGINS = 32, SP_SRC_SCC = 253, SP_SCC_UNDEFINED = 2 };

/* What a handler returns: 0 goes on with the next instruction, anything else leaves the loop. */
enum sp_wave_stop {
    SP_WAVE_GO = 0,
    SP_WAVE_END,     /* s_endpgm */
    SP_WAVE_BARRIER, /* waits for the rest of its group */
    SP_WAVE_YIELD,   /* s_sleep: somebody else's turn */
    SP_WAVE_FAULT,   /* exec.fault says why */
    SP_WAVE_POISON   /* never returned: an operand is undefined, and nothing has been done yet (ops/spread.c) */
};

/* MODE register: the fields this emulator honours. */
enum { SP_MODE_ROUND32 = 3, SP_MODE_ROUND64 = 12, SP_MODE_KEEP32_IN = 0x10, SP_MODE_KEEP32_OUT = 0x20,
       SP_MODE_KEEP64_IN = 0x40, SP_MODE_KEEP64_OUT = 0x80, /* denormals are kept, not flushed; 64: halves, too */
       SP_MODE_DX10_CLAMP = 1 << 8, SP_MODE_IEEE = 1 << 9 };

/* A load whose data has not been waited for: its registers are not ready until then. */
enum sp_pending_kind { SP_PEND_VM, SP_PEND_LDS, SP_PEND_SMEM, SP_PEND_FLAT };
struct sp_pending {
    uint8_t kind;
    uint8_t count; /* registers */
    uint16_t reg;
    uint32_t seq; /* of its counter when it was issued */
    uint64_t lanes;
    uint64_t undefined; /* lanes that get poison; an SGPR: not 0 */
    uint8_t why;        /* of them: a number of sp_origin */
};

/* Where poison in a register came from, which something has written all the same. */
enum sp_from { SP_FROM_MEMORY, SP_FROM_LDS, SP_FROM_SCRATCH, SP_FROM_DEALLOC, SP_FROM_REGISTER, SP_FROM_CACHE };
struct sp_origin {
    uint64_t pc, at; /* the instruction, and the address or the register that it read */
    const char *cache, *lacks; /* of SP_FROM_CACHE, which holds what memory held before: it, and what invalidates it */
    uint16_t op;
    uint8_t from;
};

struct sp_group {
    uint32_t id[3];
    uint32_t lds_bytes;
    uint32_t waves;
    uint8_t *lds;
    uint8_t *lds_written; /* a byte per LDS dword: was it ever written? Else it holds SP_POISON */
};
static inline void sp_lds_unwrite(const struct sp_group *g, uint32_t dword, uint32_t count)
{
    static const uint32_t poison = SP_POISON;
    memset(g->lds_written + dword, 0, count);
    for (uint32_t k = dword; k < dword + count; k++) memcpy(g->lds + 4 * k, &poison, sizeof poison);
}

struct sp_code;
struct sp_racer;

struct sp_wave {
    uint32_t s[SP_SGPRS]; /* by operand code: VCC 106, M0 125 (gfx11's place), EXEC 126 */
    uint64_t exec;        /* s[126:127], bits beyond the wave cut off */
    uint64_t full;        /* all lanes of the wave */
    uint64_t lane_enable; /* set by DPP operands: lanes whose result is written */
    uint64_t pc, next;    /* this instruction; the one after it */
    uint32_t scc; /* 0 or 1, and SP_SCC_UNDEFINED: nothing defined has set it */
    uint32_t lanes; /* 32 or 64 */
    uint32_t generation;
    uint32_t mode;
    uint32_t stop; /* of sp_wave_stop, set by operand reads that failed */
    uint32_t strict;
    uint32_t state; /* of sp_wave_stop: why it is not running */
    uint32_t id;    /* in its group */
    uint32_t active, active_at_top;
    struct sp_emu_exec *x;
    struct sp_emu_tlb *tlb;
    struct sp_emu_fault *fault;
    struct sp_group *group;
    struct sp_code *code;
    struct sp_racer *race; /* NULL: nobody looks for races */
    uint64_t flat_scratch;  /* this wave's scratch; gfx10: what s_setreg FLAT_SCR_LO/HI left */
    uint32_t flat_scratch_undefined; /* bits 0 and 1: s_setreg put an undefined value into its half */
    uint64_t scratch_bytes; /* of this wave; 0: it has none */
    uint32_t vgpr_count;
    uint32_t vm_issued, lds_issued, pending_count;
    uint32_t vm_waited, lds_waited, vs_waited; /* how many of those issued have been waited for */
    uint32_t vs_issued, scratch_stored; /* stores; the last of them that was to scratch */
    uint32_t poison_seen;       /* by the access under way: it is looked at once more (ops/poison.c) */
    uint32_t poison_reg, poison_scc; /* of SP_WAVE_POISON: the operand; SCC as it was */
    uint32_t poison_by_lane;    /* of SP_WAVE_POISON: a copy, to which lanes that nobody has written matter */
    uint32_t spreading;         /* undefined operands are tried out: reads of them pass */
    uint32_t origins;           /* 0: no register has poison that was loaded; then what is behind `v` means nothing */
    uint64_t *scratch_written;  /* a bit a dword of this wave's scratch; NULL: it has none, or nobody asks */
    uint64_t wmma_end; /* where the last WMMA ended, and its first result: the next one may not read that */
    uint32_t wmma_dst;
    uint64_t instructions, lane_ops;
    uint8_t sgpr_ready[SP_SGPRS];
    uint64_t vgpr_ready[SP_VGPRS]; /* lanes that were written and arrived */
    uint32_t v[SP_VGPRS][SP_LANES] __attribute__((aligned(64)));
    /* Not cleared at a wave's launch. */
    struct sp_pending pending[SP_PENDING];
    struct sp_origin origin[SP_ORIGINS];
    uint8_t why[SP_SRC_VGPR + SP_VGPRS]; /* by operand code: a number of `origin`, 0: never written */
    uint64_t poison[SP_VGPRS];           /* lanes that are not ready, for an instruction has made them so */
    uint32_t s_undefined[SP_SGPRS];      /* which bits of such an SGPR, and of such lanes, are undefined */
    uint32_t v_undefined[SP_VGPRS][SP_LANES];
};

typedef int (*sp_wave_fn)(struct sp_wave *w, const struct sp_inst *i);
struct sp_wave_op {
    uint32_t op;
    sp_wave_fn fn;
};
#define SP_OP_ENTRY(NAME, ...) {SP_OP_##NAME, NAME},
#define SP_OP_END {SP_OP_NUM, NULL}

/* Records the fault with pc, group and wave, and returns SP_WAVE_FAULT; the first one stays. */
int sp_wave_fault(struct sp_wave *w, uint32_t kind, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The TLB already filled the fault: adds where it happened. */
int sp_wave_fault_at(struct sp_wave *w, uint32_t lane);

/* pending.c: loads under way. `reg` as operand code. */
void sp_wave_load_begins(struct sp_wave *w, enum sp_pending_kind kind, uint32_t reg, uint32_t count);
void sp_wave_wait_vm(struct sp_wave *w, uint32_t at_most);
void sp_wave_wait_lgkm(struct sp_wave *w, uint32_t at_most);
/* As sp_wave_load_begins, once for the counter; undefined[k] are the lanes of register k that get poison. */
void sp_wave_poison_begins(struct sp_wave *w, enum sp_pending_kind kind, uint32_t reg, uint32_t count,
                           const uint64_t *undefined, uint8_t why);
static inline void sp_wave_waited(uint32_t *waited, uint32_t issued, uint32_t at_most)
{
    if (issued - *waited > at_most) *waited = issued - at_most;
}
bool sp_wave_is_pending(const struct sp_wave *w, uint32_t reg);
/* An operand was not ready: a fault when its load is under way; else, where strict mode says so, SP_WAVE_POISON. */
void sp_wave_not_ready(struct sp_wave *w, const struct sp_inst *i, uint32_t reg);
/* The same for one lane, or of an instruction that copies: no lane that nobody has written is let pass. */
void sp_wave_not_copied(struct sp_wave *w, const struct sp_inst *i, uint32_t reg);
/* The fault of an undefined operand that decides. */
int sp_wave_decides(struct sp_wave *w, const struct sp_inst *i, uint32_t reg);
const char *sp_wave_reg_name(uint32_t reg, char *to, size_t nbytes);
void sp_wave_overtaken(struct sp_wave *w, const struct sp_inst *i, uint32_t reg);

/* poison.c: registers that hold poison though something wrote them. `reg` as operand code. */
uint8_t sp_wave_origin(struct sp_wave *w, const struct sp_inst *i, enum sp_from from, uint64_t at);
/* These lanes get (or, in `defined`, lose) what the origin explains, in all bits; SGPRs have no lanes. */
void sp_wave_poisoned(struct sp_wave *w, uint32_t reg, uint64_t lanes, uint64_t defined, uint8_t why);
/* Lanes of a VGPR that are undefined, those that nobody has written too; the bits of one of them, or of an SGPR. */
uint64_t sp_wave_undefined_lanes(const struct sp_wave *w, uint32_t reg);
uint32_t sp_wave_undefined_bits(const struct sp_wave *w, uint32_t reg, uint32_t lane);
/* The origin of an undefined register, 0: it has none. */
uint8_t sp_wave_origin_of(const struct sp_wave *w, uint32_t reg);
/* Why a register is undefined, in words that follow its name. */
const char *sp_wave_why(const struct sp_wave *w, uint32_t reg, char *to, size_t nbytes);

static inline const char *sp_wave_op_name(uint32_t op) { return op < SP_OP_NUM ? sp_op_names[op] : "?"; }

/* The shader's clock; it ticks with the constant one, for there is no other. */
uint64_t sp_wave_realtime(const struct sp_wave *w);
/* How a load reads, by its GLC and DLC: SP_VM_*. */
uint32_t sp_wave_load_access(const struct sp_wave *w, const struct sp_inst *i);
/* Applies MODE's rounding to the host. */
void sp_wave_rounding(uint32_t mode_bits);
#endif
