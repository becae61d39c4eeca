/* One wave and its group: the state that instructions read and change. operand.h defines operands.
 * This file knows no dispatch registers, packets or functions of instructions. */
#ifndef SP_EMU_WAVE_H
#define SP_EMU_WAVE_H
#include "emu/gen/isa_ops.h"
#include "emu/exec.h"
#include "emu/isa/inst.h"
#include <errno.h>
#include <stdbool.h>

enum { SP_VCC = 106, SP_EXEC = 126, SP_LANES = 64, SP_SGPRS = 128, SP_VGPRS = 256, SP_PENDING = 128,
       SP_ORIGINS = 32, SP_SRC_SCC = 253, SP_SCC_UNDEFINED = 2 };

/* Result of a handler: 0 continues with the next instruction, any other value leaves the loop. */
enum sp_wave_stop {
    SP_WAVE_GO = 0,
    SP_WAVE_END,     /* s_endpgm */
    SP_WAVE_BARRIER, /* waits for the rest of its group */
    SP_WAVE_YIELD,   /* s_sleep: the next wave's turn */
    SP_WAVE_FAULT,   /* exec.fault has the reason */
    SP_WAVE_POISON   /* never returned: an operand is undefined; no effect has happened yet (ops/spread.c) */
};

/* Fields of the MODE register that this emulator implements. */
enum { SP_MODE_ROUND32 = 3, SP_MODE_ROUND64 = 12, SP_MODE_KEEP32_IN = 0x10, SP_MODE_KEEP32_OUT = 0x20,
       SP_MODE_KEEP64_IN = 0x40, SP_MODE_KEEP64_OUT = 0x80, /* denormals are kept, not flushed; 64: halves too */
       SP_MODE_DX10_CLAMP = 1 << 8, SP_MODE_IEEE = 1 << 9 };

/* A load that the wave has issued but not yet waited for. Its registers are not ready. */
enum sp_pending_kind { SP_PEND_VM, SP_PEND_LDS, SP_PEND_SMEM, SP_PEND_FLAT };
struct sp_pending {
    uint8_t kind;
    uint8_t count; /* registers */
    uint16_t reg;
    uint32_t seq; /* the load's number: how many loads its counter had issued */
    uint64_t lanes;
    uint64_t undefined; /* VGPR: the lanes that load poison. SGPR: nonzero if it loads poison */
    uint8_t why;        /* the origin of the poison: index of a struct sp_origin */
};

/* The origin of poison in a register that was written nevertheless. */
enum sp_from { SP_FROM_MEMORY, SP_FROM_LDS, SP_FROM_SCRATCH, SP_FROM_DEALLOC, SP_FROM_REGISTER, SP_FROM_CACHE };
struct sp_origin {
    uint64_t pc, at; /* the instruction, and the address or register that it read */
    const char *cache, *lacks; /* for SP_FROM_CACHE: the cache with old bytes, and the missing invalidation */
    uint16_t op;
    uint8_t from;
};

struct sp_group {
    uint32_t id[3];
    uint32_t lds_bytes;
    uint32_t waves;
    uint8_t *lds;
    /* one byte per LDS dword: 1 if a wave wrote the dword, 0 if the dword holds SP_POISON */
    uint8_t *lds_written;
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
    uint64_t pc, next;    /* address of this instruction, and of the next one */
    uint32_t scc; /* 0 or 1, and SP_SCC_UNDEFINED: no defined value has set it */
    uint32_t lanes; /* 32 or 64 */
    uint32_t generation;
    uint32_t mode;
    uint32_t stop; /* of sp_wave_stop, set by failed operand reads */
    uint32_t strict;
    uint32_t state; /* of sp_wave_stop: why it is not running */
    uint32_t id;    /* in its group */
    uint32_t active, active_at_top;
    struct sp_emu_exec *x;
    struct sp_emu_tlb *tlb;
    struct sp_emu_fault *fault;
    struct sp_group *group;
    struct sp_code *code;
    struct sp_racer *race; /* NULL: races are not looked for */
    uint64_t flat_scratch;  /* this wave's scratch; gfx10: the value of s_setreg FLAT_SCR_LO/HI */
    uint32_t flat_scratch_undefined; /* bits 0 and 1: s_setreg wrote an undefined value to its half */
    uint64_t scratch_bytes; /* of this wave; 0: none */
    uint32_t vgpr_count;
    uint32_t vm_issued, lds_issued, pending_count;
    uint32_t vm_waited, lds_waited, vs_waited; /* issued operations that the wave has waited for */
    uint32_t vs_issued, scratch_stored; /* stores; the last of them to scratch */
    uint32_t poison_seen;       /* by the access in progress: it needs a second look (ops/poison.c) */
    uint32_t poison_reg, poison_scc; /* of SP_WAVE_POISON: the operand; the old SCC */
    uint32_t poison_by_lane;    /* of SP_WAVE_POISON: a copy, for which unwritten lanes matter */
    uint32_t spreading;         /* undefined operands are being tried: reads of them pass */
    uint32_t origins;           /* 0: no register has loaded poison, and the members behind `v` are invalid */
    /* one bit per dword of this wave's scratch; NULL: no scratch, or not tracked */
    uint64_t *scratch_written;
    uint64_t wmma_end; /* end of the last WMMA, and its first result, which the next WMMA may not read */
    uint32_t wmma_dst;
    uint64_t instructions, lane_ops;
    uint8_t sgpr_ready[SP_SGPRS];
    uint64_t vgpr_ready[SP_VGPRS]; /* lanes that were written and have arrived */
    uint32_t v[SP_VGPRS][SP_LANES] __attribute__((aligned(64)));
    /* Not cleared at a wave's launch. */
    struct sp_pending pending[SP_PENDING];
    struct sp_origin origin[SP_ORIGINS];
    uint8_t why[SP_SRC_VGPR + SP_VGPRS]; /* by operand code: a number of `origin`; 0: never written */
    uint64_t poison[SP_VGPRS];           /* lanes that are not ready because an instruction made them so */
    uint32_t s_undefined[SP_SGPRS];      /* undefined bits of such an SGPR, and of such lanes */
    uint32_t v_undefined[SP_VGPRS][SP_LANES];
};

typedef int (*sp_wave_fn)(struct sp_wave *w, const struct sp_inst *i);
struct sp_wave_op {
    uint32_t op;
    sp_wave_fn fn;
};
#define SP_OP_ENTRY(NAME, ...) {SP_OP_##NAME, NAME},
#define SP_OP_END {SP_OP_NUM, NULL}

/* Records the fault with pc, group and wave. Returns SP_WAVE_FAULT. Only the first fault is
 * kept. */
int sp_wave_fault(struct sp_wave *w, uint32_t kind, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Adds the place to a fault that the TLB has filled. */
int sp_wave_fault_at(struct sp_wave *w, uint32_t lane);

/* pending.c: loads under way. `reg`: an operand code. */
void sp_wave_load_begins(struct sp_wave *w, enum sp_pending_kind kind, uint32_t reg, uint32_t count);
void sp_wave_wait_vm(struct sp_wave *w, uint32_t at_most);
void sp_wave_wait_lgkm(struct sp_wave *w, uint32_t at_most);
/* As sp_wave_load_begins, once for the counter; undefined[k]: lanes of register k that get
 * poison. */
void sp_wave_poison_begins(struct sp_wave *w, enum sp_pending_kind kind, uint32_t reg, uint32_t count,
                           const uint64_t *undefined, uint8_t why);
static inline void sp_wave_waited(uint32_t *waited, uint32_t issued, uint32_t at_most)
{
    if (issued - *waited > at_most) *waited = issued - at_most;
}
bool sp_wave_is_pending(const struct sp_wave *w, uint32_t reg);
/* An operand was not ready: a fault if its load is under way; else, in strict mode,
 * SP_WAVE_POISON. */
void sp_wave_not_ready(struct sp_wave *w, const struct sp_inst *i, uint32_t reg);
/* As above for one lane, or for a copying instruction: unwritten lanes are not accepted. */
void sp_wave_not_copied(struct sp_wave *w, const struct sp_inst *i, uint32_t reg);
/* The fault of an undefined operand that decides. */
int sp_wave_decides(struct sp_wave *w, const struct sp_inst *i, uint32_t reg);
const char *sp_wave_reg_name(uint32_t reg, char *to, size_t nbytes);
void sp_wave_overtaken(struct sp_wave *w, const struct sp_inst *i, uint32_t reg);

/* poison.c: written registers that hold poison. `reg`: an operand code. */
uint8_t sp_wave_origin(struct sp_wave *w, const struct sp_inst *i, enum sp_from from, uint64_t at);
/* Poisons these lanes, or clears poison in `defined`, in all bits, with this origin; SGPRs have no
 * lanes. */
void sp_wave_poisoned(struct sp_wave *w, uint32_t reg, uint64_t lanes, uint64_t defined, uint8_t why);
/* Undefined lanes of a VGPR, with unwritten ones; undefined bits of one of them, or of an SGPR. */
uint64_t sp_wave_undefined_lanes(const struct sp_wave *w, uint32_t reg);
uint32_t sp_wave_undefined_bits(const struct sp_wave *w, uint32_t reg, uint32_t lane);
/* The origin of an undefined register; 0: none. */
uint8_t sp_wave_origin_of(const struct sp_wave *w, uint32_t reg);
/* Why a register is undefined, as a text that follows its name. */
const char *sp_wave_why(const struct sp_wave *w, uint32_t reg, char *to, size_t nbytes);

static inline const char *sp_wave_op_name(uint32_t op) { return op < SP_OP_NUM ? sp_op_names[op] : "?"; }

/* The shader's clock; it equals the constant clock, because there is no other. */
uint64_t sp_wave_realtime(const struct sp_wave *w);
/* How a load reads, by its GLC and DLC: SP_VM_*. */
uint32_t sp_wave_load_access(const struct sp_wave *w, const struct sp_inst *i);
/* Applies MODE's rounding to the host. */
void sp_wave_rounding(uint32_t mode_bits);
#endif
