/* IEEE half precision in plain C. Conversions from a half are exact; conversions to a half round by
 * two bits of FLOAT_MODE. */
#ifndef SP_EMU_OPS_HALF_H
#define SP_EMU_OPS_HALF_H
#include "emu/wave/operand.h"

static inline float sp_half_to_float(uint32_t h)
{
    uint32_t magnitude = (h & 0x7FFF) << 13;
    float f = sp_f32(magnitude) * 0x1p112f; /* also makes a denormal half a normal float */
    uint32_t bits = magnitude >= 0x0F800000u ? magnitude | 0x7F800000u : sp_u32(f);
    return sp_f32(bits | (h & 0x8000) << 16);
}

/* Converts a double to a half. `rounding`: 0 nearest even, 1 up, 2 down, 3 toward zero. */
static inline uint32_t sp_half_from_double(double x, uint32_t rounding)
{
    uint64_t bits = sp_u64(x), magnitude = bits & ~(UINT64_C(1) << 63);
    uint32_t sign = (uint32_t)(bits >> 63) << 15;
    if (magnitude > UINT64_C(0x7FF0000000000000)) return sign | 0x7E00 | (uint32_t)(magnitude >> 42 & 0x3FF);
    if (magnitude == UINT64_C(0x7FF0000000000000)) return sign | 0x7C00;
    int exponent = (int)(magnitude >> 52) - 1023;
    if (exponent > 15) exponent = 16; /* 15 is the largest exponent of a finite half */
    int unit = (exponent < -14 ? -14 : exponent) - 10;
    double scaled = exponent == 16 ? 2047.75 : sp_f64(magnitude) * sp_f64((uint64_t)(1023 - unit) << 52);
    uint32_t digits = (uint32_t)scaled;
    double rest = scaled - digits;
    bool up = rounding == 0 ? rest > 0.5 || (rest == 0.5 && (digits & 1))
                            : rest > 0 && ((rounding == 1 && !sign) || (rounding == 2 && sign));
    if (exponent == 16) digits = up || rounding == 0 ? 0x7C00 : 0x7BFF;
    else digits += (uint32_t)up + (exponent < -14 ? 0 : (uint32_t)(exponent + 14) << 10);
    return sign | digits;
}

/* Returns a*b + c for halves. The product is exact in double. The sum is rounded to odd, so that
 * only the later rounding to a half counts. */
static inline double sp_half_fma(double a, double b, double c)
{
    double product = a * b, sum = product + c, back = sum - product;
    double lost = (product - (sum - back)) + (c - back);
    uint64_t bits = sp_u64(sum);
    if (lost != 0 && !(bits & 1) && sum - sum == 0) bits += (lost > 0) == (sum > 0) ? 1 : UINT64_MAX;
    return sp_f64(bits);
}

static inline const uint32_t *sp_src16_as(struct sp_wave *w, const struct sp_inst *i, unsigned k, uint32_t *t,
                                          enum sp_width width)
{
    uint32_t shift = (i->op_sel >> k & 1) * 16u;
    const uint32_t *from = sp_src_as(w, i, k, t, width);
    SP_EACH_LANE(w, l) t[l] = from[l] >> shift & 0xFFFF;
    return t;
}

/* Returns src[k] as 16-bit values in 32-bit lanes; op_sel selects the half of a register. sp_src16
 * is for integer instructions. They read an inline constant such as 2.0 as a 32-bit float.
 * sp_src16_float is for float instructions. They read the same constant as a half (LLVM,
 * AMDGPUBaseInfo.cpp, getInlineEncodingV216). */
static inline const uint32_t *sp_src16(struct sp_wave *w, const struct sp_inst *i, unsigned k, uint32_t *t)
{
    return sp_src16_as(w, i, k, t, SP_B32);
}

static inline const uint32_t *sp_src16_float(struct sp_wave *w, const struct sp_inst *i, unsigned k, uint32_t *t)
{
    return sp_src16_as(w, i, k, t, SP_B16);
}

/* Returns src[k] as halves converted to floats. Modifiers and the mode of input denormals are
 * applied. */
static inline const float *sp_srch(struct sp_wave *w, const struct sp_inst *i, unsigned k, uint32_t *t)
{
    uint32_t keep = (i->abs >> k) & 1 ? 0x7FFF : 0xFFFF, flip = (i->neg >> k) & 1 ? 0x8000 : 0;
    uint32_t tiny = w->mode & SP_MODE_KEEP64_IN ? 0 : 0x400;
    float *f = (float *)t;
    sp_src16_float(w, i, k, t);
    SP_EACH_LANE(w, l) {
        uint32_t h = (t[l] & keep) ^ flip;
        f[l] = sp_half_to_float((h & 0x7FFF) < tiny ? h & 0x8000 : h);
    }
    return f;
}

/* Writes a 16-bit result to one half of the register; the other half keeps its value. */
static inline int sp_put16(struct sp_wave *w, const struct sp_inst *i, uint32_t *r)
{
    uint32_t code = i->dst;
    bool high = i->op_sel >> 3 & 1;
    if (SP_UNLIKELY(i->lane_mode == SP_LANE_SDWA)) return sp_put(w, i, r);
    if (SP_UNLIKELY(w->stop)) return (int)w->stop;
    const uint32_t *old = w->v[code & 255];
    if (high)
        SP_EACH_LANE(w, l) r[l] = (old[l] & 0xFFFF) | r[l] << 16;
    else
        SP_EACH_LANE(w, l) r[l] = (old[l] & 0xFFFF0000) | (r[l] & 0xFFFF);
    sp_put_lanes(w, i, code, r, sp_write_mask(w, i));
    return (int)w->stop;
}

static inline uint32_t sp_half_result(const struct sp_wave *w, const struct sp_inst *i, double x)
{
    double scale = (double)sp_omod(w, i, SP_MODE_KEEP64_OUT);
    /* OMOD's factor applies to the result after it was rounded and denormals were flushed */
    if (scale != 1.0) {
        uint32_t h = sp_half_from_double(x, w->mode >> 2 & 3);
        x = (h & 0x7C00) == 0 ? 0.0 : (double)sp_half_to_float(h) * scale;
    }
    if (i->clamp) x = x != x ? (w->mode & SP_MODE_DX10_CLAMP ? 0 : x) : x > 1 ? 1 : x > 0 ? x : 0;
    uint32_t h = sp_half_from_double(x, w->mode >> 2 & 3);
    return !(w->mode & SP_MODE_KEEP64_OUT) && (h & 0x7C00) == 0 ? h & 0x8000 : h;
}

static inline int sp_puth(struct sp_wave *w, const struct sp_inst *i, const double *r)
{
    uint32_t h[SP_LANES];
    SP_EACH_LANE(w, l) h[l] = sp_half_result(w, i, r[l]);
    return sp_put16(w, i, h);
}
#endif
