/* Poison in the ALU. An instruction with undefined operands is executed several times, each time
 * with other bits in place of the undefined ones. Result bits that differ between these runs are
 * undefined; no instruction needs a rule of its own. So a result stays defined if the undefined
 * half is not read, the undefined lane is not chosen, or a mask clears the undefined bits.
 *
 * Undefined values that decide are faults: in compares, branches, EXEC, and the choice of a
 * register or a lane. */
#include "alu_poison.h"
#include "emu/wave/operand.h"
#include "op_kind.h"

/* RUNS: number of trial runs of an instruction. REGISTERS: largest number of VGPRs that one
 * instruction reads and writes together. */
enum { RUNS = 4, REGISTERS = 32 };

/* A copy of the wave's registers that an instruction may read or write. */
struct image {
    uint32_t s[SP_SGPRS], scc;
    uint64_t next;
    uint32_t v[REGISTERS][SP_LANES];
};
struct trial {
    struct sp_wave *w;
    /* `by_lane`: the instruction only copies an undefined VGPR, or reads one lane of it. `merge`:
     * as `by_lane`, and some lanes of this VGPR are defined. */
    bool by_lane, merge;
    uint32_t count;
    uint8_t reg[REGISTERS];
    uint8_t sgpr_ready[SP_SGPRS];
    uint64_t vgpr_ready[REGISTERS], poison[REGISTERS]; /* before */
    struct image before, first, differs;
};

static void add(struct trial *t, uint32_t code, uint32_t ndw)
{
    if (code < SP_SRC_VGPR) return;
    for (uint32_t k = 0; k < (ndw && ndw != SP_NDW_MASK ? ndw : 1); k++) {
        uint32_t n = 0, r = (code + k) & 255;
        while (n < t->count && t->reg[n] != r) n++;
        if (n < t->count || n == REGISTERS) continue;
        t->reg[t->count++] = (uint8_t)r;
        t->vgpr_ready[n] = t->w->vgpr_ready[r];
        t->poison[n] = t->by_lane ? ~t->vgpr_ready[n] : sp_wave_undefined_lanes(t->w, SP_SRC_VGPR + r);
    }
}

static void take(const struct trial *t, struct image *to)
{
    memcpy(to->s, t->w->s, sizeof to->s);
    to->scc = t->w->scc;
    to->next = t->w->next;
    for (uint32_t n = 0; n < t->count; n++) memcpy(to->v[n], t->w->v[t->reg[n]], sizeof to->v[n]);
}

/* Returns `value` with test bits in place of the undefined ones. By `run`, the test bits are all 0,
 * all 1, pseudorandom bits, or the complement of those bits. So the runs show a result that depends
 * on a single bit, or that changes only at an extreme value. */
static uint32_t tried(uint32_t value, uint32_t run, uint32_t reg, uint32_t lane, uint32_t undefined)
{
    uint32_t any = (reg * SP_LANES + lane + 1) * 0x9E3779B1u;
    uint32_t bits = (run & 1 ? UINT32_MAX : 0) ^ (run & 2 ? any ^ any >> 15 : 0);
    return (value & ~undefined) | (bits & undefined);
}

static void begin(const struct trial *t, uint32_t run)
{
    struct sp_wave *w = t->w;
    memcpy(w->sgpr_ready, t->sgpr_ready, sizeof w->sgpr_ready);
    for (uint32_t c = 0; c < SP_SGPRS; c++)
        w->s[c] = t->sgpr_ready[c] ? t->before.s[c] : tried(t->before.s[c], run, c, 0, sp_wave_undefined_bits(w, c, 0));
    w->scc = t->before.scc & SP_SCC_UNDEFINED ? SP_SCC_UNDEFINED | (run & 1) : t->before.scc;
    w->next = t->before.next;
    sp_exec_changed(w);
    for (uint32_t n = 0; n < t->count; n++) {
        uint32_t r = t->reg[n], code = SP_SRC_VGPR + r;
        w->vgpr_ready[r] = t->vgpr_ready[n];
        memcpy(w->v[r], t->before.v[n], sizeof w->v[r]);
        for (uint64_t rest = t->poison[n] & w->full; rest; rest &= rest - 1) {
            uint32_t l = (uint32_t)__builtin_ctzll(rest);
            w->v[r][l] = tried(w->v[r][l], run, code, l, sp_wave_undefined_bits(w, code, l));
        }
    }
}

static void compare(struct trial *t, uint32_t run)
{
    struct image now;
    if (run == 0) {
        take(t, &t->first);
        return;
    }
    take(t, &now);
    for (uint32_t c = 0; c < SP_SGPRS; c++) t->differs.s[c] |= now.s[c] ^ t->first.s[c];
    t->differs.scc |= now.scc ^ t->first.scc;
    t->differs.next |= now.next ^ t->first.next;
    for (uint32_t n = 0; n < t->count; n++)
        for (uint32_t l = 0; l < SP_LANES; l++) t->differs.v[n][l] |= now.v[n][l] ^ t->first.v[n][l];
}

/* Marks the SGPRs whose bits differed between the trial runs as undefined. If an SGPR was not ready
 * before the runs and they have not written it, it gets its old bits back and stays not ready.
 * Returns true if any register is undefined. */
static bool settle_scalars(struct trial *t, uint8_t why)
{
    struct sp_wave *w = t->w;
    bool any = false;
    for (uint32_t c = 0; c < SP_SGPRS; c++) {
        if (!t->sgpr_ready[c] && !w->sgpr_ready[c]) {
            w->s[c] = t->before.s[c];
        } else if (t->differs.s[c]) {
            any = true;
            w->sgpr_ready[c] = 0;
            sp_wave_poisoned(w, c, 1, 1, why);
            w->s_undefined[c] = t->differs.s[c];
        }
    }
    return any;
}

/* An element of a matrix or a dot product that differs between the trial runs is undefined as a
 * whole: after so many roundings the bits that differ by chance say nothing about the others. */
static void widen_elements(struct trial *t, const struct sp_inst *i)
{
    bool halves = i->op == SP_OP_V_WMMA_F16_16X16X16_F16 || i->op == SP_OP_V_WMMA_BF16_16X16X16_BF16 ||
                  i->op == SP_OP_V_DOT2_F16_F16 || i->op == SP_OP_V_DOT2_BF16_BF16;
    for (uint32_t n = 0; n < t->count; n++)
        for (uint32_t l = 0; l < SP_LANES; l++) {
            uint32_t d = t->differs.v[n][l];
            if (d) t->differs.v[n][l] = !halves ? UINT32_MAX : (d & 0xFFFF ? 0xFFFF : 0) | (d >> 16 ? 0xFFFF0000 : 0);
        }
}

/* Marks the VGPR lanes whose bits differed between the trial runs as undefined. In general they
 * become poison. Exception: the instruction copies a VGPR of which some lanes are defined. Then the
 * copies of its never-written lanes count as never written. */
static void settle_vectors(struct trial *t, uint8_t why)
{
    struct sp_wave *w = t->w;
    uint64_t held = t->merge ? 0 : UINT64_MAX;
    for (uint32_t n = 0; n < t->count && w->origins; n++) held |= w->poison[t->reg[n]] & ~t->vgpr_ready[n];
    for (uint32_t n = 0; n < t->count; n++) {
        uint32_t r = t->reg[n];
        uint64_t undefined = 0;
        for (uint32_t l = 0; l < w->lanes; l++) {
            if (!(w->vgpr_ready[r] >> l & 1))
                w->v[r][l] = t->before.v[n][l];
            else if (t->differs.v[n][l])
                undefined |= UINT64_C(1) << l;
        }
        if (!undefined) continue;
        w->vgpr_ready[r] &= ~undefined;
        sp_wave_poisoned(w, SP_SRC_VGPR + r, undefined & held, undefined, why);
        for (uint64_t rest = undefined & held; rest; rest &= rest - 1)
            w->v_undefined[r][__builtin_ctzll(rest)] = t->differs.v[n][__builtin_ctzll(rest)];
    }
}

/* Returns true if a vector compare reads undefined bits. Trial runs with different bits cannot show
 * that, because their results may be equal nevertheless. */
static bool compares(const struct sp_wave *w, const struct sp_inst *i)
{
    bool half = strstr(sp_wave_op_name(i->op), "16") != NULL;
    for (uint32_t k = 0; k < 2; k++) {
        uint32_t sel = k ? i->src1_sel : i->src0_sel, code = i->src[k], mask = UINT32_MAX;
        if (half) mask = 0xFFFFu << (i->op_sel >> k & 1) * 16;
        if (i->lane_mode == SP_LANE_SDWA && sel < 6) mask = sel < 4 ? 0xFFu << sel * 8 : 0xFFFFu << (sel - 4) * 16;
        for (uint32_t n = code; n < code + (i->src_ndw[k] ? i->src_ndw[k] : 1u); n++) {
            uint64_t lanes = code >= SP_SRC_VGPR ? sp_wave_undefined_lanes(w, n) & w->exec : n < SP_SGPRS && !w->sgpr_ready[n];
            for (; lanes; lanes &= lanes - 1)
                if (sp_wave_undefined_bits(w, n, (uint32_t)__builtin_ctzll(lanes)) & mask) return true;
        }
    }
    return false;
}

static bool decides(const struct sp_wave *w, const struct sp_inst *i, uint32_t reg)
{
    uint32_t op = i->op;
    bool selects = op == SP_OP_V_CNDMASK_B32 || op == SP_OP_S_CMOVK_I32;
    bool lane = op == SP_OP_V_READLANE_B32 || op == SP_OP_V_WRITELANE_B32;
    bool bit = op >= SP_OP_S_BITCMP0_B32 && op <= SP_OP_S_BITCMP1_B64;
    if (!sp_wave_op_is_alu(op) || (op >= SP_OP_S_CMPK_EQ_I32 && op <= SP_OP_S_CMPK_LT_U32)) return true;
    if (i->format == SP_FORMAT_SOPC && !bit) return true;
    if (i->dst < SP_SRC_VGPR && i->dst_ndw == SP_NDW_MASK) return compares(w, i);
    bool carries = op == SP_OP_S_ADDC_U32 || op == SP_OP_S_SUBB_U32;
    if (reg == SP_SRC_SCC) return !carries && op != SP_OP_S_CSELECT_B32 && op != SP_OP_S_CSELECT_B64;
    if (selects && (reg == i->src[2] || reg == i->src[2] + 1u)) return true;
    if (lane && reg == i->src[1]) return true;
    return reg == SP_SRC_M0 && i->src[0] != reg && i->src[1] != reg && i->src[2] != reg;
}

int sp_wave_spread(struct sp_wave *w, const struct sp_inst *i, sp_wave_fn fn)
{
    struct trial t;
    uint32_t reg = w->poison_reg;
    uint8_t why = sp_wave_origin_of(w, reg);
    int rc = 0;
    w->stop = SP_WAVE_GO;
    w->scc = w->poison_scc;
    if (decides(w, i, reg)) return sp_wave_decides(w, i, reg);
    t.w = w;
    t.by_lane = w->poison_by_lane;
    t.merge = t.by_lane && w->vgpr_ready[reg & 255];
    t.count = 0;
    memset(&t.differs, 0, sizeof t.differs);
    add(&t, i->dst, i->dst_ndw);
    add(&t, reg, 1);
    for (uint32_t k = 0; k < 3; k++) add(&t, i->src[k], i->src_ndw[k]);
    memcpy(t.sgpr_ready, w->sgpr_ready, sizeof t.sgpr_ready);
    take(&t, &t.before);
    w->spreading = 1;
    for (uint32_t run = 0; run < RUNS && !rc; run++) {
        begin(&t, run);
        rc = fn(w, i);
        if (!rc) rc = (int)w->stop;
        compare(&t, run);
    }
    w->spreading = 0;
    if (rc) return rc;
    if (t.differs.s[SP_EXEC] | t.differs.s[SP_EXEC + 1] || t.differs.next) return sp_wave_decides(w, i, reg);
    if (!why) why = sp_wave_origin(w, i, SP_FROM_REGISTER, reg);
    if (sp_wave_op_is_matrix(i->op)) widen_elements(&t, i);
    settle_vectors(&t, why);
    bool scalar = settle_scalars(&t, why);
    if (t.before.scc & w->scc & SP_SCC_UNDEFINED) {
        w->scc = t.before.scc;
    } else if (t.differs.scc & 1) {
        /* SCC differs between the trial runs. If no SGPR differs, SCC is the instruction's only
         * result: it is a compare. Undefined operands of a compare are a fault. */
        if (!scalar) return sp_wave_decides(w, i, reg);
        w->scc |= SP_SCC_UNDEFINED;
    }
    return 0;
}
