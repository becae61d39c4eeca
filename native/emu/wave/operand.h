/* Operands: converts a source to 64 lanes, and a result to a register. Every family of instructions
 * includes this file. The hot cases are inline; DPP and SDWA are in special_operands.c. Sources
 * have the 9-bit codes of inst.h. */
#ifndef SP_EMU_WAVE_OPERAND_H
#define SP_EMU_WAVE_OPERAND_H
#include "wave.h"
#include <math.h>

#define SP_LIKELY(x) __builtin_expect(!!(x), 1)
#define SP_UNLIKELY(x) __builtin_expect(!!(x), 0)
/* Loops over all lanes of the wave in blocks of 32. The compiler can vectorise the loop without a
 * remainder and without checks for overlap: the inner length is constant, the index does not wrap,
 * and lanes are independent. */
#define SP_EACH_LANE(w, l) for (size_t l##_b = 0; l##_b < (w)->lanes; l##_b += 32) \
    _Pragma("GCC ivdep") for (size_t l = l##_b, l##_n = 0; l##_n < 32; l++, l##_n++)
/* Loops over all lanes one by one, for rare or slow instructions. A vectorised loop would add bytes
 * to the wheel. */
#define SP_LANE_BY_LANE(w, l) for (uint32_t l = 0; l < (w)->lanes; l++)

static inline float sp_f32(uint32_t bits) { union { uint32_t u; float f; } c = {bits}; return c.f; }
static inline uint32_t sp_u32(float value) { union { float f; uint32_t u; } c = {value}; return c.u; }
static inline double sp_f64(uint64_t bits) { union { uint64_t u; double f; } c = {bits}; return c.f; }
static inline uint64_t sp_u64(double value) { union { double f; uint64_t u; } c = {value}; return c.u; }

/* Width and type of an operand. It decides the value of an inline constant. */
enum sp_width { SP_B16, SP_B32, SP_F64, SP_B64, SP_I64 };

/* special_operands.c: sp_operand_special returns a constant, an aperture, VCCZ, EXECZ or SCC as a
 * value of type `width`. sp_operand_lanes applies DPP and SDWA to src[0] or src[1]. */
uint64_t sp_operand_special(struct sp_wave *w, const struct sp_inst *i, uint32_t code, enum sp_width width);
const uint32_t *sp_operand_lanes(struct sp_wave *w, const struct sp_inst *i, unsigned k, const uint32_t *from,
                                 uint32_t *to);
void sp_operand_sdwa_result(const struct sp_inst *i, const uint32_t *old, uint32_t *result, uint32_t lanes);
int sp_operand_bad(struct sp_wave *w, const struct sp_inst *i, uint32_t code);

/* --- scalar operands --- */

/* special_operands.c: these functions read what the inline functions below do not: constants and other special
 * operands, and registers that are not ready. For the latter they call sp_wave_not_ready. */
uint32_t sp_s32_slow(struct sp_wave *w, const struct sp_inst *i, uint32_t code);
uint64_t sp_s64_slow(struct sp_wave *w, const struct sp_inst *i, uint32_t code);
uint64_t sp_mask_slow(struct sp_wave *w, const struct sp_inst *i, uint32_t code);

static inline uint32_t sp_s32(struct sp_wave *w, const struct sp_inst *i, uint32_t code)
{
    if (SP_LIKELY(code < SP_SGPRS && w->sgpr_ready[code])) return w->s[code];
    return sp_s32_slow(w, i, code);
}

static inline bool sp_pair_ready(const struct sp_wave *w, uint32_t code)
{
    return code < SP_SGPRS - 1 && code != SP_SRC_NULL && w->sgpr_ready[code] && w->sgpr_ready[code + 1];
}

static inline uint64_t sp_s64(struct sp_wave *w, const struct sp_inst *i, uint32_t code)
{
    if (SP_LIKELY(sp_pair_ready(w, code))) return w->s[code] | (uint64_t)w->s[code + 1] << 32;
    return sp_s64_slow(w, i, code);
}

static inline void sp_exec_changed(struct sp_wave *w)
{
    w->exec = (w->s[SP_EXEC] | (uint64_t)w->s[SP_EXEC + 1] << 32) & w->full;
    w->active = (uint32_t)__builtin_popcountll(w->exec);
}

/* special_operands.c: the slow case of sp_put_s32. It writes to the operands NULL, M0 and EXEC, and
 * to any SGPR while loads are under way. Writes nothing once a fault has stopped the wave. */
void sp_put_s32_slow(struct sp_wave *w, const struct sp_inst *i, uint32_t code, uint32_t value);

static inline void sp_put_s32(struct sp_wave *w, const struct sp_inst *i, uint32_t code, uint32_t value)
{
    if (SP_UNLIKELY(code >= SP_SRC_NULL || (w->pending_count | w->stop))) {
        sp_put_s32_slow(w, i, code, value);
        return;
    }
    w->s[code] = value;
    w->sgpr_ready[code] = 1;
}

static inline void sp_put_s64(struct sp_wave *w, const struct sp_inst *i, uint32_t code, uint64_t value)
{
    if (code == SP_SRC_NULL) return;
    sp_put_s32(w, i, code, (uint32_t)value);
    sp_put_s32(w, i, code + 1, (uint32_t)(value >> 32));
}

static inline uint32_t sp_scc(struct sp_wave *w, const struct sp_inst *i)
{
    if (SP_UNLIKELY(w->scc & SP_SCC_UNDEFINED)) sp_wave_not_ready(w, i, SP_SRC_SCC);
    return w->scc & 1;
}

/* special_operands.c: call it for a VGPR with undefined lanes that an instruction copies or stores (`stored`).
 * Raises a fault if a load into the VGPR is under way. A store sets w->poison_seen in strict
 * mode. */
void sp_vgpr_undefined(struct sp_wave *w, const struct sp_inst *i, uint32_t code, bool stored);

/* Returns a VGPR, as sp_vgpr does, for data that are only copied: they may be undefined. */
static inline const uint32_t *sp_vgpr_copied(struct sp_wave *w, const struct sp_inst *i, uint32_t code)
{
    if (SP_UNLIKELY(w->exec & ~w->vgpr_ready[code & 255])) sp_vgpr_undefined(w, i, code, false);
    return w->v[code & 255];
}

/* Returns a lane mask, which is in one SGPR of a wave32 and in two of a wave64. The bits for
 * inactive lanes may be undefined. */
static inline uint64_t sp_mask(struct sp_wave *w, const struct sp_inst *i, uint32_t code)
{
    if (w->lanes == 64 ? SP_LIKELY(sp_pair_ready(w, code)) : SP_LIKELY(code < SP_SGPRS && w->sgpr_ready[code]))
        return w->lanes == 64 ? w->s[code] | (uint64_t)w->s[code + 1] << 32 : w->s[code];
    return sp_mask_slow(w, i, code);
}

/* Returns a lane mask of which all bits must be defined. */
static inline uint64_t sp_whole_mask(struct sp_wave *w, const struct sp_inst *i, uint32_t code)
{
    return w->lanes == 64 ? sp_s64(w, i, code) : sp_s32(w, i, code);
}

static inline void sp_put_mask(struct sp_wave *w, const struct sp_inst *i, uint32_t code, uint64_t value)
{
    if (w->lanes == 64)
        sp_put_s64(w, i, code, value);
    else
        sp_put_s32(w, i, code, (uint32_t)value);
}

/* --- vector operands --- */

/* Returns the VGPR with this operand code. Beyond the allocation hardware reads v0; here that is a
 * fault. */
static inline const uint32_t *sp_vgpr(struct sp_wave *w, const struct sp_inst *i, uint32_t code)
{
    uint32_t r = code & 255;
    if (SP_UNLIKELY(code < SP_SRC_VGPR)) sp_operand_bad(w, i, code);
    if (SP_UNLIKELY((w->vgpr_ready[r] & w->exec) != w->exec)) sp_wave_not_ready(w, i, SP_SRC_VGPR + r);
    return w->v[r];
}

static inline void sp_fill(struct sp_wave *w, uint32_t *to, uint32_t value)
{
    SP_EACH_LANE(w, l) to[l] = value;
}

/* Returns src[k] as 32-bit lanes. For a VGPR without DPP or SDWA that is the VGPR itself; all else
 * is written to `t`. Lanes outside EXEC are arbitrary. */
static inline const uint32_t *sp_src_as(struct sp_wave *w, const struct sp_inst *i, unsigned k, uint32_t *t,
                                        enum sp_width width)
{
    uint32_t code = i->src[k];
    const uint32_t *from = t;
    if (SP_LIKELY(code >= SP_SRC_VGPR))
        from = sp_vgpr(w, i, code);
    else if (SP_LIKELY(code < SP_SGPRS))
        sp_fill(w, t, sp_s32(w, i, code));
    else
        sp_fill(w, t, (uint32_t)sp_operand_special(w, i, code, width));
    if (SP_UNLIKELY(i->lane_mode)) from = sp_operand_lanes(w, i, k, from, t);
    return from;
}

static inline const uint32_t *sp_src(struct sp_wave *w, const struct sp_inst *i, unsigned k, uint32_t *t)
{
    return sp_src_as(w, i, k, t, SP_B32);
}

/* Returns src[k] of an instruction that copies. Lanes of it that were never written stay
 * undefined. */
static inline const uint32_t *sp_src_copied(struct sp_wave *w, const struct sp_inst *i, unsigned k, uint32_t *t)
{
    uint32_t code = i->src[k];
    if (SP_UNLIKELY(code >= SP_SRC_VGPR && (w->exec & ~w->vgpr_ready[code & 255]))) sp_wave_not_copied(w, i, code);
    return sp_src(w, i, k, t);
}

static inline bool sp_flush32_in(const struct sp_wave *w) { return !(w->mode & SP_MODE_KEEP32_IN); }
static inline bool sp_flush32_out(const struct sp_wave *w) { return !(w->mode & SP_MODE_KEEP32_OUT); }

/* Returns src[k] as floats, with modifiers and the mode of input denormals applied. */
static inline const float *sp_srcf(struct sp_wave *w, const struct sp_inst *i, unsigned k, uint32_t *t)
{
    const uint32_t *from = sp_src(w, i, k, t);
    bool absolute = (i->abs >> k) & 1, negate = (i->neg >> k) & 1, flush = sp_flush32_in(w);
    if (SP_LIKELY(!(absolute | negate | flush))) return (const float *)from;
    uint32_t keep = absolute ? 0x7FFFFFFFu : 0xFFFFFFFFu, flip = negate ? 0x80000000u : 0u;
    uint32_t tiny = flush ? 0x00800000u : 0u;
    SP_EACH_LANE(w, l) {
        uint32_t bits = from[l];
        bits = (bits & 0x7FFFFFFFu) < tiny ? bits & 0x80000000u : bits;
        t[l] = (bits & keep) ^ flip;
    }
    return (const float *)t;
}

/* Returns src[k] as 64-bit lanes. */
static inline const uint64_t *sp_src64_as(struct sp_wave *w, const struct sp_inst *i, unsigned k, uint64_t *t,
                                          enum sp_width width)
{
    uint32_t code = i->src[k];
    if (SP_LIKELY(code >= SP_SRC_VGPR)) {
        const uint32_t *low = sp_vgpr(w, i, code);
        const uint32_t *high = sp_vgpr(w, i, SP_SRC_VGPR + ((code + 1) & 255));
        if (SP_UNLIKELY(i->lane_mode)) sp_operand_bad(w, i, code);
        SP_EACH_LANE(w, l) t[l] = low[l] | (uint64_t)high[l] << 32;
        return t;
    }
    uint64_t value = code < SP_SGPRS ? sp_s64(w, i, code) : sp_operand_special(w, i, code, width);
    SP_EACH_LANE(w, l) t[l] = value;
    return t;
}

static inline const uint64_t *sp_src64(struct sp_wave *w, const struct sp_inst *i, unsigned k, uint64_t *t)
{
    return sp_src64_as(w, i, k, t, SP_B64);
}

static inline const double *sp_srcd(struct sp_wave *w, const struct sp_inst *i, unsigned k, uint64_t *t)
{
    sp_src64_as(w, i, k, t, SP_F64);
    uint64_t keep = (i->abs >> k) & 1 ? ~(UINT64_C(1) << 63) : ~UINT64_C(0);
    uint64_t flip = (i->neg >> k) & 1 ? UINT64_C(1) << 63 : 0;
    uint64_t tiny = w->mode & SP_MODE_KEEP64_IN ? 0 : UINT64_C(1) << 52;
    SP_EACH_LANE(w, l) {
        uint64_t bits = t[l];
        bits = (bits << 1 >> 1) < tiny ? bits & (UINT64_C(1) << 63) : bits;
        t[l] = (bits & keep) ^ flip;
    }
    return (const double *)t;
}

/* Returns the lanes that the instruction writes. */
static inline uint64_t sp_write_mask(struct sp_wave *w, const struct sp_inst *i)
{
    return SP_UNLIKELY(i->lane_mode == SP_LANE_DPP16) ? w->exec & w->lane_enable : w->exec;
}

static inline void sp_put_lanes(struct sp_wave *w, const struct sp_inst *i, uint32_t code, const uint32_t *value,
                                uint64_t mask)
{
    uint32_t r = code & 255, *to = w->v[r];
    if (SP_UNLIKELY(code < SP_SRC_VGPR)) {
        sp_operand_bad(w, i, code);
        return;
    }
    if (SP_UNLIKELY(w->pending_count)) sp_wave_overtaken(w, i, code);
    w->vgpr_ready[r] |= mask;
    if (SP_LIKELY(mask == w->full)) {
        SP_EACH_LANE(w, l) to[l] = value[l];
        return;
    }
    for (uint32_t b = 0; b < w->lanes; b += 32) {
        uint32_t part = (uint32_t)(mask >> b);
        for (uint32_t l = 0; l < 32; l++) to[b + l] = part >> l & 1 ? value[b + l] : to[b + l];
    }
}

/* Writes the result of a vector instruction. Returns 0, or w->stop if the wave must stop. */
static inline int sp_put(struct sp_wave *w, const struct sp_inst *i, uint32_t *r)
{
    if (SP_UNLIKELY(w->stop)) return (int)w->stop;
    if (SP_UNLIKELY(i->lane_mode == SP_LANE_SDWA)) sp_operand_sdwa_result(i, w->v[i->dst & 255], r, w->lanes);
    sp_put_lanes(w, i, i->dst, r, sp_write_mask(w, i));
    return (int)w->stop;
}

/* Returns the factor of OMOD. It is 1 where hardware ignores OMOD: in IEEE mode, and if denormal
 * results of the format are kept (`keep`, a bit of MODE). Mesa's ACO and LLVM's SIFoldOperands rely
 * on these rules. */
static inline float sp_omod(const struct sp_wave *w, const struct sp_inst *i, uint32_t keep)
{
    static const float FACTOR[] = {1.0f, 2.0f, 4.0f, 0.5f};
    return FACTOR[w->mode & (SP_MODE_IEEE | keep) ? 0 : i->omod & 3];
}

static inline void sp_flush_f32(const struct sp_wave *w, float *r)
{
    uint32_t *bits = (uint32_t *)r;
    SP_EACH_LANE(w, l) bits[l] = (bits[l] & 0x7FFFFFFFu) < 0x00800000u ? bits[l] & 0x80000000u : bits[l];
}

/* Applies OMOD and CLAMP to float results. OMOD turns each zero or denormal into +0. A number that
 * OMOD halves to a denormal becomes a zero of its sign (seen on gfx1010 and gfx1030:
 * output_modifier.h of ROCm's rocjitsu). */
static inline void sp_finish_f32(const struct sp_wave *w, const struct sp_inst *i, float *r)
{
    float scale = sp_omod(w, i, SP_MODE_KEEP32_OUT);
    bool zero_nan = w->mode & SP_MODE_DX10_CLAMP;
    if (sp_flush32_out(w)) sp_flush_f32(w, r);
    if (scale != 1.0f) {
        SP_EACH_LANE(w, l) r[l] = r[l] == 0 ? 0.0f : r[l] * scale;
        sp_flush_f32(w, r);
    }
    if (i->clamp) SP_EACH_LANE(w, l) {
        float x = r[l];
        r[l] = x != x ? (zero_nan ? 0.0f : x) : x > 1.0f ? 1.0f : x > 0.0f ? x : 0.0f;
    }
}

static inline int sp_putf(struct sp_wave *w, const struct sp_inst *i, float *r)
{
    if (SP_UNLIKELY(i->omod | i->clamp | sp_flush32_out(w))) sp_finish_f32(w, i, r);
    return sp_put(w, i, (uint32_t *)r);
}

static inline int sp_put64(struct sp_wave *w, const struct sp_inst *i, const uint64_t *r)
{
    uint32_t low[SP_LANES], high[SP_LANES];
    if (SP_UNLIKELY(w->stop)) return (int)w->stop;
    SP_EACH_LANE(w, l) {
        low[l] = (uint32_t)r[l];
        high[l] = (uint32_t)(r[l] >> 32);
    }
    sp_put_lanes(w, i, i->dst, low, w->exec);
    sp_put_lanes(w, i, SP_SRC_VGPR + ((i->dst + 1u) & 255), high, w->exec);
    return (int)w->stop;
}

static inline void sp_flush_f64(const struct sp_wave *w, uint64_t *bits)
{
    SP_EACH_LANE(w, l) bits[l] = (bits[l] << 1 >> 1) < UINT64_C(1) << 52 ? bits[l] >> 63 << 63 : bits[l];
}

static inline int sp_putd(struct sp_wave *w, const struct sp_inst *i, double *r)
{
    uint64_t *bits = (uint64_t *)r;
    double scale = (double)sp_omod(w, i, SP_MODE_KEEP64_OUT);
    bool zero_nan = w->mode & SP_MODE_DX10_CLAMP;
    if (!(w->mode & SP_MODE_KEEP64_OUT)) sp_flush_f64(w, bits);
    if (scale != 1.0) {
        SP_EACH_LANE(w, l) r[l] = r[l] == 0 ? 0.0 : r[l] * scale;
        sp_flush_f64(w, bits);
    }
    if (i->clamp) SP_EACH_LANE(w, l) {
        double x = r[l];
        r[l] = x != x ? (zero_nan ? 0.0 : x) : x > 1.0 ? 1.0 : x > 0.0 ? x : 0.0;
    }
    return sp_put64(w, i, bits);
}

/* Returns the values of `r` (0 or 1 per lane) as a mask. Inactive lanes give 0. */
static inline uint64_t sp_gather_mask(const struct sp_wave *w, const uint32_t *r, uint64_t lanes)
{
    uint64_t mask = 0;
    for (uint32_t b = 0; b < w->lanes; b += 32) {
        uint32_t part = 0;
        for (uint32_t l = 0; l < 32; l++) part |= r[b + l] << l;
        mask |= (uint64_t)part << b;
    }
    return mask & lanes;
}
#endif
