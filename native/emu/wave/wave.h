/* One wave and its group: the state that instructions read and change. operand.h defines operands.
 * This file knows no dispatch registers, packets or functions of instructions. */
#ifndef SP_EMU_WAVE_H
#define SP_EMU_WAVE_H
#include "emu/gen/isa_ops.h"
#include "emu/exec/exec.h"
#include "emu/isa/inst.h"
#include <errno.h>
#include <stdbool.h>

enum { SP_VCC = 106, SP_EXEC = 126, SP_LANES = 64, SP_SGPRS = 128, SP_VGPRS = 256, SP_PENDING = 128,
       SP_ORIGINS = 32, SP_SRC_SCC = 253, SP_SCC_UNDEFINED = 2 };

/* Result of the function that executes an instruction. 0: the wave goes on with its next
 * instruction. Any other value ends sp_wave_run. */
enum sp_wave_stop {
    SP_WAVE_GO = 0,
    SP_WAVE_END,     /* s_endpgm */
    SP_WAVE_BARRIER, /* the wave waits for the other waves of its group */
    SP_WAVE_YIELD,   /* s_sleep: it is the next wave's turn */
    SP_WAVE_FAULT,   /* the wave has faulted; exec.fault has the reason */
    /* Never returned to the caller: an operand is undefined, and the instruction has had no effect
     * yet (ops/poison/alu_poison.c). */
    SP_WAVE_POISON
};

/* Fields of the MODE register that this emulator implements. */
enum { SP_MODE_ROUND32 = 3, SP_MODE_ROUND64 = 12, SP_MODE_KEEP32_IN = 0x10, SP_MODE_KEEP32_OUT = 0x20,
       /* KEEP: denormals are kept, not flushed; the KEEP64 bits also apply to halves */
       SP_MODE_KEEP64_IN = 0x40, SP_MODE_KEEP64_OUT = 0x80,
       SP_MODE_DX10_CLAMP = 1 << 8, SP_MODE_IEEE = 1 << 9 };

/* Loads that the wave has issued but not yet waited for: their kinds, and a record of one (struct
 * sp_pending). The registers of such a load are not ready. */
enum sp_pending_kind { SP_PEND_VM, SP_PEND_LDS, SP_PEND_SMEM, SP_PEND_FLAT };
struct sp_pending {
    uint8_t kind;
    uint8_t count; /* registers */
    uint16_t reg;
    uint32_t seq; /* value of the counter of loads when the load was issued */
    uint64_t lanes;
    uint64_t undefined; /* VGPR: the lanes that load poison. SGPR: nonzero if it loads poison */
    uint8_t why;        /* the origin of the poison: index of a struct sp_origin */
};

/* Where the poison of a register came from. A register that was never written has no origin. */
enum sp_from { SP_FROM_MEMORY, SP_FROM_LDS, SP_FROM_SCRATCH, SP_FROM_DEALLOC, SP_FROM_REGISTER, SP_FROM_CACHE };
struct sp_origin {
    uint64_t pc, at; /* address of the instruction, and the address or register that it read */
    /* if `from` is SP_FROM_CACHE: name of the cache that held old bytes, and name of the
     * invalidation that the program lacks */
    const char *cache, *lacks;
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
struct sp_race_group;

struct sp_wave {
    /* scalar registers by operand code: VCC 106, M0 125 (as on gfx11), EXEC 126 */
    uint32_t s[SP_SGPRS];
    uint64_t exec;        /* s[126:127], without the bits beyond the wave's number of lanes */
    uint64_t full;        /* mask of all lanes of the wave */
    uint64_t lane_enable; /* set by DPP operands: lanes whose result is written */
    uint64_t pc, next;    /* address of this instruction, and of the next one */
    uint32_t scc; /* 0 or 1; while SCC is undefined, SP_SCC_UNDEFINED is set too */
    uint32_t lanes; /* 32 or 64 */
    uint32_t generation;
    uint32_t mode;
    uint32_t stop; /* enum sp_wave_stop; set when reading an operand fails */
    uint32_t strict;
    uint32_t state; /* enum sp_wave_stop: why the wave is not running */
    uint32_t id;    /* number of the wave in its group */
    uint32_t active, active_at_top;
    struct sp_emu_exec *x;
    struct sp_emu_tlb *tlb;
    struct sp_emu_fault *fault;
    struct sp_group *group;
    struct sp_code *code;
    struct sp_race_group *race; /* NULL: the dispatch is not checked for races */
    /* address of the wave's scratch; on gfx10 the value that s_setreg wrote to FLAT_SCR_LO/HI */
    uint64_t flat_scratch;
    /* bit 0 or 1: s_setreg wrote an undefined value to the low or high half of FLAT_SCRATCH */
    uint32_t flat_scratch_undefined;
    uint64_t scratch_bytes; /* bytes of scratch of this wave; 0: no scratch */
    uint32_t vgpr_count;
    uint32_t vm_issued, lds_issued, pending_count;
    /* for VMCNT, LGKMCNT and VSCNT: how many of the issued operations the wave has waited for */
    uint32_t vm_waited, lds_waited, vs_waited;
    /* number of stores issued so far; number of the last one that was to scratch */
    uint32_t vs_issued, scratch_stored;
    /* nonzero if the present access may have touched poison: ops/poison/poison.c must look for it */
    uint32_t poison_seen;
    /* if an instruction stopped with SP_WAVE_POISON: the operand code of the undefined operand, and
     * the value that SCC had before the instruction */
    uint32_t poison_reg, poison_scc;
    /* if an instruction stopped with SP_WAVE_POISON: 1 if it reads one lane or only copies. For
     * such an instruction, lanes that were never written count as undefined. */
    uint32_t poison_by_lane;
    /* 1 while alu_poison.c runs an instruction with several values in place of its undefined
     * operands; otherwise, in strict mode, reading such an operand stops the instruction */
    uint32_t spreading;
    /* Number of used elements of `origin`, which say where poison came from. Element 0 counts too,
     * and stands for no origin. 0: no register holds poison, and `why` and `poison` are not
     * initialised. */
    uint32_t origins;
    /* one bit per dword of this wave's scratch; NULL: no scratch, or not tracked */
    uint64_t *scratch_written;
    /* address of the instruction that follows the last WMMA */
    uint64_t wmma_end;
    /* first result register of the last WMMA; a WMMA at wmma_end may not read the result */
    uint32_t wmma_dst;
    uint64_t instructions, lane_ops;
    uint8_t sgpr_ready[SP_SGPRS];
    uint64_t vgpr_ready[SP_VGPRS]; /* lanes that have been written, and whose load has completed */
    uint32_t v[SP_VGPRS][SP_LANES] __attribute__((aligned(64)));
    /* This member and the following ones are not cleared when a wave is launched. */
    struct sp_pending pending[SP_PENDING];
    struct sp_origin origin[SP_ORIGINS];
    /* for the register of each operand code: index of the element of `origin` that says where its
     * poison came from; 0: the register is undefined because nothing has written it */
    uint8_t why[SP_SRC_VGPR + SP_VGPRS];
    /* for each VGPR: mask of the lanes that hold poison; a lane's bit counts only while vgpr_ready
     * lacks the lane */
    uint64_t poison[SP_VGPRS];
    uint32_t s_undefined[SP_SGPRS];      /* undefined bits of a poisoned SGPR */
    uint32_t v_undefined[SP_VGPRS][SP_LANES];
};

typedef int (*sp_wave_fn)(struct sp_wave *w, const struct sp_inst *i);
struct sp_wave_op {
    uint32_t op;
    sp_wave_fn fn;
};
#define SP_OP_ENTRY(NAME, ...) {SP_OP_##NAME, NAME},
#define SP_OP_END {SP_OP_NUM, NULL}

/* Records a fault with pc, group and wave. Returns SP_WAVE_FAULT. Only the first fault is kept. */
int sp_wave_fault(struct sp_wave *w, uint32_t kind, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Adds pc, group, wave and lane to a fault that the TLB has filled. Returns SP_WAVE_FAULT. */
int sp_wave_fault_at(struct sp_wave *w, uint32_t lane);

/* pending_loads.c: loads under way. sp_wave_load_begins records a load into `count` registers;
 * `reg` is the operand code of the first one. */
void sp_wave_load_begins(struct sp_wave *w, enum sp_pending_kind kind, uint32_t reg, uint32_t count);
void sp_wave_wait_vm(struct sp_wave *w, uint32_t at_most);
void sp_wave_wait_lgkm(struct sp_wave *w, uint32_t at_most);
/* Records a load into `count` registers that may bring poison. The hardware's counter counts one
 * load, whatever `count` is. undefined[k]: the lanes of register k that get poison. */
void sp_wave_poison_begins(struct sp_wave *w, enum sp_pending_kind kind, uint32_t reg, uint32_t count,
                           const uint64_t *undefined, uint8_t why);
static inline void sp_wave_waited(uint32_t *waited, uint32_t issued, uint32_t at_most)
{
    if (issued - *waited > at_most) *waited = issued - at_most;
}
bool sp_wave_is_pending(const struct sp_wave *w, uint32_t reg);
/* Call it when an operand is not ready. If its load is under way, that is a fault. Else, in strict
 * mode, w->stop becomes SP_WAVE_POISON. */
void sp_wave_not_ready(struct sp_wave *w, const struct sp_inst *i, uint32_t reg);
/* Call it in place of sp_wave_not_ready for an instruction that reads one lane or only copies. In
 * strict mode it sets w->stop to SP_WAVE_POISON even if the undefined lanes are inactive. For such
 * an instruction a lane that was never written counts as undefined. */
void sp_wave_not_copied(struct sp_wave *w, const struct sp_inst *i, uint32_t reg);
/* Raises the fault of an undefined operand that decides. Returns SP_WAVE_FAULT. */
int sp_wave_decides(struct sp_wave *w, const struct sp_inst *i, uint32_t reg);
const char *sp_wave_reg_name(uint32_t reg, char *to, size_t nbytes);
void sp_wave_overtaken(struct sp_wave *w, const struct sp_inst *i, uint32_t reg);

/* poison.c: registers that hold poison. `reg` is an operand code. sp_wave_origin records that
 * instruction `i` made a register poison, and returns the number of the struct sp_origin that says
 * so. */
uint8_t sp_wave_origin(struct sp_wave *w, const struct sp_inst *i, enum sp_from from, uint64_t at);
/* Poisons all bits of `lanes`, and clears the poison of the lanes `defined`. `why` is the number of
 * the struct sp_origin that says where the poison came from. An SGPR has no lanes. */
void sp_wave_poisoned(struct sp_wave *w, uint32_t reg, uint64_t lanes, uint64_t defined, uint8_t why);
/* sp_wave_undefined_lanes returns the undefined or never written lanes of a VGPR.
 * sp_wave_undefined_bits returns the undefined bits of a lane, or of an SGPR. */
uint64_t sp_wave_undefined_lanes(const struct sp_wave *w, uint32_t reg);
uint32_t sp_wave_undefined_bits(const struct sp_wave *w, uint32_t reg, uint32_t lane);
/* Returns the number of the struct sp_origin that says why a register is undefined; 0: there is
 * none. */
uint8_t sp_wave_origin_of(const struct sp_wave *w, uint32_t reg);
/* Returns why a register is undefined, as a text that follows the register's name. */
const char *sp_wave_why(const struct sp_wave *w, uint32_t reg, char *to, size_t nbytes);

static inline const char *sp_wave_op_name(uint32_t op) { return op < SP_OP_NUM ? sp_op_names[op] : "?"; }

/* Returns the GPU clock, which S_MEMTIME and S_MEMREALTIME read. The emulated card has no other
 * clock. */
uint64_t sp_wave_realtime(const struct sp_wave *w);
/* Returns SP_VM_READ, and a bit that says which caches the load bypasses, by its GLC and DLC. */
uint32_t sp_wave_load_access(const struct sp_wave *w, const struct sp_inst *i);
/* Sets the host's rounding as MODE says. */
void sp_wave_rounding(uint32_t mode_bits);
#endif
