/* Program flow, waits, messages, hardware registers: the SOPP instructions and related SOPK
 * ones. */
#include "families.h"
#include "emu/memory/unit.h"
#include "emu/race/race.h"
#include "emu/wave/operand.h"

#define HEAD(NAME) static int NAME(struct sp_wave *w, const struct sp_inst *i)

HEAD(S_ENDPGM)
{
    (void)w, (void)i;
    return SP_WAVE_END;
}

/* Instructions without effect in a machine that models no timing. S_WAITCNT_DEPCTR and S_DELAY_ALU
 * wait for ALU results, which are always ready here. */
#define NO_EFFECT(X)                                                                                                  \
    X(S_NOP) X(S_SETPRIO) X(S_CLAUSE) X(S_DELAY_ALU) X(S_WAITCNT_DEPCTR)                              \
    X(S_SET_INST_PREFETCH_DISTANCE) X(S_TTRACEDATA) X(S_TTRACEDATA_IMM) X(S_INCPERFLEVEL) X(S_DECPERFLEVEL)           \
    X(S_WAITCNT_EXPCNT) X(S_VERSION) X(S_WAIT_EVENT) X(S_WAKEUP)
#define DEFINE_NO_EFFECT(NAME)                                                                                        \
    HEAD(NAME)                                                                                                        \
    {                                                                                                                 \
        (void)w, (void)i;                                                                                             \
        return 0;                                                                                                     \
    }
NO_EFFECT(DEFINE_NO_EFFECT)

HEAD(S_ICACHE_INV)
{
    (void)i;
    sp_cache_invalidate(w->tlb, SP_GCR_GLI_INV);
    return 0;
}

#define BRANCHES(X)                                                                                                   \
    X(S_BRANCH, true)                                                                                                 \
    X(S_CBRANCH_SCC0, !sp_scc(w, i))                                                                                  \
    X(S_CBRANCH_SCC1, sp_scc(w, i))                                                                                   \
    X(S_CBRANCH_VCCZ, sp_whole_mask(w, i, SP_VCC) == 0)                                                                     \
    X(S_CBRANCH_VCCNZ, sp_whole_mask(w, i, SP_VCC) != 0)                                                                    \
    X(S_CBRANCH_EXECZ, w->exec == 0)                                                                                  \
    X(S_CBRANCH_EXECNZ, w->exec != 0)                                                                                 \
    X(S_CBRANCH_CDBGSYS, false) /* only a debugger sets these flags */                                                \
    X(S_CBRANCH_CDBGUSER, false)                                                                                      \
    X(S_CBRANCH_CDBGSYS_OR_USER, false)                                                                               \
    X(S_CBRANCH_CDBGSYS_AND_USER, false)
#define DEFINE_BRANCH(NAME, IF)                                                                                       \
    HEAD(NAME)                                                                                                        \
    {                                                                                                                 \
        if (IF) w->next += (uint64_t)((int64_t)(int16_t)i->offset * 4);                                               \
        return (int)w->stop;                                                                                          \
    }
BRANCHES(DEFINE_BRANCH)

/* A wave64 runs a block of code for its low lanes, then again for its high lanes. Meanwhile one
 * half of EXEC is 0, and SDST holds the value of that half. */
HEAD(S_SUBVECTOR_LOOP_BEGIN)
{
    uint32_t low = w->s[SP_EXEC], high = w->s[SP_EXEC + 1];
    if (!low && !high) w->next += (uint64_t)((int64_t)(int16_t)i->offset * 4);
    if (!low && high) sp_put_s32(w, i, i->dst, low);
    if (low) {
        sp_put_s32(w, i, i->dst, high);
        sp_put_s32(w, i, SP_EXEC + 1, 0);
    }
    return (int)w->stop;
}

HEAD(S_SUBVECTOR_LOOP_END)
{
    uint32_t kept = sp_s32(w, i, i->dst), low = w->s[SP_EXEC];
    if (w->s[SP_EXEC + 1]) {
        sp_put_s32(w, i, SP_EXEC, kept);
    } else if (kept) {
        sp_put_s32(w, i, SP_EXEC + 1, kept);
        sp_put_s32(w, i, i->dst, low);
        sp_put_s32(w, i, SP_EXEC, 0);
        w->next += (uint64_t)((int64_t)(int16_t)i->offset * 4);
    }
    return (int)w->stop;
}

HEAD(S_BARRIER)
{
    (void)i;
    if (w->group->waves == 1) return 0; /* no other wave to wait for */
    if (w->race) sp_race_arrives(w);
    return SP_WAVE_BARRIER;
}

HEAD(S_SLEEP)
{
    (void)w, (void)i;
    return SP_WAVE_YIELD;
}

/* Waits until at most `at_most` stores are under way. Stores complete in order. The last store to
 * scratch is tracked for DEALLOC_VGPRS. */
static void wait_vs(struct sp_wave *w, uint32_t at_most)
{
    sp_wave_waited(&w->vs_waited, w->vs_issued, at_most);
    if (w->scratch_stored && w->scratch_stored + at_most <= w->vs_issued) w->scratch_stored = 0;
}

HEAD(S_WAITCNT_VSCNT)
{
    wait_vs(w, (sp_s32(w, i, i->dst) + (uint32_t)i->offset) & 63);
    return (int)w->stop;
}

HEAD(S_WAIT_IDLE)
{
    (void)i;
    wait_vs(w, 0);
    sp_wave_wait_vm(w, 0);
    sp_wave_wait_lgkm(w, 0);
    return 0;
}

HEAD(S_WAITCNT)
{
    uint32_t k = (uint32_t)i->offset & 0xFFFF;
    bool new = w->generation == 11;
    sp_wave_wait_vm(w, new ? k >> 10 & 63 : (k & 15) | (k >> 14 & 3) << 4);
    sp_wave_wait_lgkm(w, new ? k >> 4 & 63 : k >> 8 & 63);
    return 0;
}

/* In the SOPK forms an SGPR (usually NULL) is added to the count. */
HEAD(S_WAITCNT_VMCNT)
{
    sp_wave_wait_vm(w, (sp_s32(w, i, i->dst) + (uint32_t)i->offset) & 63);
    return (int)w->stop;
}

HEAD(S_WAITCNT_LGKMCNT)
{
    sp_wave_wait_lgkm(w, (sp_s32(w, i, i->dst) + (uint32_t)i->offset) & 63);
    return (int)w->stop;
}

/* Frees the wave's VGPRs and scratch. The wave's stores may be under way then, but not stores to
 * scratch (LLVM D153295, pull request 160669). */
static int dealloc_vgprs(struct sp_wave *w, const struct sp_inst *i)
{
    if (w->scratch_stored && !(w->x->lenient & SP_LENIENT_DEALLOC))
        return sp_wave_fault(w, SP_FAULT_UNINITIALISED, "S_SENDMSG DEALLOC_VGPRS before the s_waitcnt_vscnt of a store to scratch");
    if (!w->strict) return 0;
    uint8_t why = sp_wave_origin(w, i, SP_FROM_DEALLOC, 0);
    memset(w->vgpr_ready, 0, sizeof w->vgpr_ready);
    for (uint32_t r = 0; r < w->vgpr_count; r++) sp_wave_poisoned(w, SP_SRC_VGPR + r, w->full, w->full, why);
    return 0;
}

enum { MSG_DEALLOC_VGPRS = 3 };

HEAD(S_SENDMSG)
{
    uint32_t message = (uint32_t)i->offset & (w->generation == 11 ? 0xFF : 0xF);
    /* only DEALLOC_VGPRS of gfx11 is modelled; any other message is a fault */
    if (message == MSG_DEALLOC_VGPRS && w->generation == 11) return dealloc_vgprs(w, i);
    return sp_wave_fault(w, SP_FAULT_RESERVED, "S_SENDMSG %u: a message that compute does not send", message);
}

HEAD(S_SENDMSGHALT) { return S_SENDMSG(w, i); }

HEAD(S_SETKILL)
{
    (void)w;
    return i->offset & 1 ? SP_WAVE_END : 0;
}

/* A fault: these instructions are only for trap handlers, and the emulated kernel driver installs
 * none. */
HEAD(S_ENDPGM_SAVED) { return sp_wave_fault(w, SP_FAULT_TRAP, "%s without a trap handler", sp_wave_op_name(i->op)); }
HEAD(S_RFE_B64) { return S_ENDPGM_SAVED(w, i); }

HEAD(S_TRAP)
{
    return sp_wave_fault(w, SP_FAULT_TRAP, "S_TRAP %u", (uint32_t)i->offset & 0xFF);
}

HEAD(S_SETHALT)
{
    if (!(i->offset & 1)) return 0;
    return sp_wave_fault(w, SP_FAULT_TRAP, "S_SETHALT");
}

HEAD(S_CODE_END)
{
    (void)i;
    return sp_wave_fault(w, SP_FAULT_OPCODE, "S_CODE_END: the wave ran beyond its program");
}

/* --- the MODE register and other hardware registers --- */
static void set_mode(struct sp_wave *w, uint32_t mode)
{
    w->mode = mode;
    sp_wave_rounding(mode & SP_MODE_ROUND32);
}

HEAD(S_ROUND_MODE)
{
    set_mode(w, (w->mode & ~15u) | ((uint32_t)i->offset & 15));
    return 0;
}

HEAD(S_DENORM_MODE)
{
    set_mode(w, (w->mode & ~0xF0u) | ((uint32_t)i->offset & 15) << 4);
    return 0;
}

enum { HW_MODE = 1, HW_STATUS = 2, HW_TRAPSTS = 3, HW_GPR_ALLOC = 5, HW_LDS_ALLOC = 6, HW_IB_STS = 7,
       HW_SH_MEM_BASES = 15, HW_FLAT_SCR_LO = 20, HW_FLAT_SCR_HI = 21, HW_ID1 = 23, HW_ID2 = 24, HW_SHADER_CYCLES = 29 };

static int read_hwreg(struct sp_wave *w, uint32_t id, uint32_t *value)
{
    switch (id) {
    case HW_MODE: *value = w->mode; return 0;
    case HW_STATUS: *value = (w->scc & 1) | (uint32_t)(w->exec == 0) << 9; return 0;
    case HW_TRAPSTS: case HW_IB_STS: case HW_ID1: case HW_ID2: *value = 0; return 0;
    case HW_GPR_ALLOC: *value = (w->vgpr_count / 8 - 1) << 8; return 0;
    case HW_LDS_ALLOC: *value = w->group->lds_bytes / 512 << 12; return 0;
    case HW_SH_MEM_BASES: *value = 0x20001000; return 0;
    case HW_FLAT_SCR_LO: *value = (uint32_t)w->flat_scratch; return 0;
    case HW_FLAT_SCR_HI: *value = (uint32_t)(w->flat_scratch >> 32); return 0;
    case HW_SHADER_CYCLES: *value = (uint32_t)w->instructions & 0xFFFFF; return 0;
    default: return sp_wave_fault(w, SP_FAULT_OPERAND, "hardware register %u is not modelled", id);
    }
}

/* Returns the bit of w->flat_scratch_undefined for one half of FLAT_SCRATCH: 1 for FLAT_SCR_LO, 2
 * for FLAT_SCR_HI. Returns 0 for any other hardware register. */
static uint32_t scratch_half(uint32_t id)
{
    return id == HW_FLAT_SCR_LO ? 1 : id == HW_FLAT_SCR_HI ? 2 : 0;
}

HEAD(S_GETREG_B32)
{
    uint32_t k = (uint32_t)i->offset, value = 0, bits = (k >> 11 & 31) + 1;
    if (read_hwreg(w, k & 63, &value)) return SP_WAVE_FAULT;
    value >>= k >> 6 & 31;
    sp_put_s32(w, i, i->dst, bits == 32 ? value : value & ((1u << bits) - 1));
    if ((w->flat_scratch_undefined & scratch_half(k & 63)) && !w->stop && i->dst != SP_SRC_NULL) {
        w->sgpr_ready[i->dst] = 0;
        sp_wave_poisoned(w, i->dst, 1, 0, 0);
    }
    return (int)w->stop;
}

static int set_hwreg(struct sp_wave *w, uint32_t k, uint32_t field)
{
    uint32_t id = k & 63, shift = k >> 6 & 31, bits = (k >> 11 & 31) + 1, old = 0;
    uint32_t mask = (bits == 32 ? ~0u : (1u << bits) - 1) << shift;
    if (read_hwreg(w, id, &old)) return SP_WAVE_FAULT;
    uint32_t value = (old & ~mask) | (field << shift & mask);
    if (id == HW_MODE) {
        set_mode(w, value);
    } else if (w->generation == 10 && id == HW_FLAT_SCR_LO) {
        w->flat_scratch = (w->flat_scratch & ~(uint64_t)UINT32_MAX) | value;
    } else if (w->generation == 10 && id == HW_FLAT_SCR_HI) {
        w->flat_scratch = (w->flat_scratch & UINT32_MAX) | (uint64_t)value << 32;
    } else {
        return sp_wave_fault(w, SP_FAULT_OPERAND, "hardware register %u cannot be written", id);
    }
    return 0;
}

/* FLAT_SCRATCH may get an undefined value as long as nothing uses it: LLVM's prologue fills it from
 * registers that a launch without scratch does not set. All other hardware registers affect
 * results, so an undefined value for them is a fault. */
HEAD(S_SETREG_B32)
{
    uint32_t half = w->generation == 10 ? scratch_half((uint32_t)i->offset & 63) : 0;
    uint32_t value = sp_s32(w, i, i->dst);
    bool defined = w->stop != SP_WAVE_POISON;
    if (half && !defined) w->stop = 0;
    if (w->stop) return (int)w->stop;
    w->flat_scratch_undefined = (w->flat_scratch_undefined & ~half) | (defined ? 0 : half);
    return set_hwreg(w, (uint32_t)i->offset, value);
}

HEAD(S_SETREG_IMM32_B32)
{
    return set_hwreg(w, (uint32_t)i->offset, i->literal);
}

/* --- messages that return a value --- */
enum { MSG_RTN_GET_REALTIME = 0x83 };

static int message(struct sp_wave *w, const struct sp_inst *i, uint64_t *value)
{
    if (i->offset != MSG_RTN_GET_REALTIME)
        return sp_wave_fault(w, SP_FAULT_OPERAND, "S_SENDMSG_RTN 0x%x is not modelled", (uint32_t)i->offset);
    *value = sp_wave_realtime(w);
    return 0;
}

HEAD(S_SENDMSG_RTN_B64)
{
    uint64_t value = 0;
    if (message(w, i, &value)) return SP_WAVE_FAULT;
    sp_put_s64(w, i, i->dst, value);
    if (!w->stop) sp_wave_load_begins(w, SP_PEND_SMEM, i->dst, 2);
    return (int)w->stop;
}

HEAD(S_SENDMSG_RTN_B32)
{
    uint64_t value = 0;
    if (message(w, i, &value)) return SP_WAVE_FAULT;
    sp_put_s32(w, i, i->dst, (uint32_t)value);
    if (!w->stop) sp_wave_load_begins(w, SP_PEND_SMEM, i->dst, 1);
    return (int)w->stop;
}

#define E SP_OP_ENTRY
const struct sp_wave_op sp_wave_control[] = {
    NO_EFFECT(E) BRANCHES(E) E(S_ICACHE_INV) E(S_ENDPGM) E(S_BARRIER) E(S_SLEEP) E(S_WAIT_IDLE) E(S_WAITCNT) E(S_WAITCNT_VMCNT)
    E(S_WAITCNT_LGKMCNT) E(S_WAITCNT_VSCNT) E(S_SENDMSG) E(S_SENDMSGHALT) E(S_SETKILL) E(S_ENDPGM_SAVED)
    E(S_RFE_B64) E(S_SUBVECTOR_LOOP_BEGIN) E(S_SUBVECTOR_LOOP_END) E(S_TRAP) E(S_SETHALT) E(S_CODE_END) E(S_ROUND_MODE) E(S_DENORM_MODE)
    E(S_GETREG_B32) E(S_SETREG_B32) E(S_SETREG_IMM32_B32) E(S_SENDMSG_RTN_B64) E(S_SENDMSG_RTN_B32) SP_OP_END};
