/* Rarely used vector instructions: sums of absolute differences over four positions, cube maps,
 * 2/pi for the reduction of angles, interpolation, the LDS broadcast. They are compiled once, for
 * any host. Semantics: AMD's RDNA2 and RDNA3 ISA documents, under the name of the instruction. */
#include "emu/ops/families.h"
#include "emu/ops/lanes_math.h"
#include "emu/ops/half.h"
#include "ds.h"

#define HEAD(NAME) static int NAME(struct sp_wave *w, const struct sp_inst *i)
#define EACH(l) for (uint32_t l = 0; l < w->lanes; l++)

/* --- sums of absolute differences: 4 bytes of src1 against 4 of the bytes of src0 --- */

static uint32_t sum_at(uint64_t a, uint32_t b, uint32_t position, bool masked)
{
    return sp_sad8((uint32_t)(a >> 8 * position), b, masked);
}

static uint64_t added(uint64_t sum, uint64_t most, bool clamp) { return clamp && sum > most ? most : sum & most; }

static int sad_packed(struct sp_wave *w, const struct sp_inst *i, bool masked)
{
    uint32_t tb[SP_LANES];
    uint64_t ta[SP_LANES], tc[SP_LANES], r[SP_LANES];
    const uint64_t *a = sp_src64(w, i, 0, ta), *c = sp_src64(w, i, 2, tc);
    const uint32_t *b = sp_src(w, i, 1, tb);
    EACH(l) {
        r[l] = 0;
        for (uint32_t n = 0; n < 4; n++)
            r[l] |= added(sum_at(a[l], b[l], n, masked) + (c[l] >> 16 * n & 0xFFFF), 0xFFFF, i->clamp) << 16 * n;
    }
    return sp_put64(w, i, r);
}
HEAD(V_QSAD_PK_U16_U8) { return sad_packed(w, i, false); }
HEAD(V_MQSAD_PK_U16_U8) { return sad_packed(w, i, true); }

HEAD(V_MQSAD_U32_U8)
{
    uint32_t tb[SP_LANES], r[4][SP_LANES], code = i->src[2];
    uint64_t ta[SP_LANES];
    const uint64_t *a = sp_src64(w, i, 0, ta);
    const uint32_t *b = sp_src(w, i, 1, tb);
    for (uint32_t n = 0; n < 4; n++) {
        struct sp_inst part = *i;
        part.src[2] = (uint16_t)(code >= SP_SRC_VGPR ? SP_SRC_VGPR + ((code + n) & 255) : code < SP_SGPRS ? code + n : code);
        const uint32_t *c = sp_src(w, &part, 2, r[n]);
        EACH(l) r[n][l] = (uint32_t)added((uint64_t)sum_at(a[l], b[l], n, true) + c[l], UINT32_MAX, i->clamp);
    }
    for (uint32_t n = 0; n < 4 && !w->stop; n++) sp_put_lanes(w, i, SP_SRC_VGPR + ((i->dst + n) & 255), r[n], w->exec);
    return (int)w->stop;
}

/* --- cube maps: the face that a direction meets, and the position on that face --- */

enum axis { X, Y, Z };
static enum axis major(float x, float y, float z)
{
    return fabsf(z) >= fabsf(x) && fabsf(z) >= fabsf(y) ? Z : fabsf(y) >= fabsf(x) ? Y : X;
}

static float cube_id(float x, float y, float z)
{
    enum axis axis = major(x, y, z);
    float along = axis == X ? x : axis == Y ? y : z;
    return (float)(2 * (int)axis + (along < 0));
}
static float cube_sc(float x, float y, float z)
{
    enum axis axis = major(x, y, z);
    return axis == Z ? (z < 0 ? -x : x) : axis == Y ? x : x < 0 ? z : -z;
}
static float cube_tc(float x, float y, float z)
{
    return major(x, y, z) == Y ? (y < 0 ? -z : z) : -y;
}
static float cube_ma(float x, float y, float z)
{
    enum axis axis = major(x, y, z);
    return 2 * (axis == X ? x : axis == Y ? y : z);
}

/* Returns a * b, the specular term of a light. Returns the least float instead in two cases: c is
 * not above 0, or b is a NaN, -infinity or the least float. */
static float mullit(float a, float b, float c)
{
    const float least = -0x1.fffffep127f;
    return b != b || b <= least || !(c > 0) ? least : a * b;
}

static int of_three(struct sp_wave *w, const struct sp_inst *i, float (*fn)(float, float, float))
{
    uint32_t ta[SP_LANES], tb[SP_LANES], tc[SP_LANES];
    float r[SP_LANES];
    const float *a = sp_srcf(w, i, 0, ta), *b = sp_srcf(w, i, 1, tb), *c = sp_srcf(w, i, 2, tc);
    EACH(l) r[l] = fn(a[l], b[l], c[l]);
    return sp_putf(w, i, r);
}
HEAD(V_CUBEID_F32) { return of_three(w, i, cube_id); }
HEAD(V_CUBESC_F32) { return of_three(w, i, cube_sc); }
HEAD(V_CUBETC_F32) { return of_three(w, i, cube_tc); }
HEAD(V_CUBEMA_F32) { return of_three(w, i, cube_ma); }
HEAD(V_MULLIT_F32) { return of_three(w, i, mullit); }

/* --- V_TRIG_PREOP: 53 of the first 1201 fraction bits of 2/pi, selected by the size of the angle
 * --- */

static const uint64_t two_over_pi[20] = {
    0xA2F9836E4E441529, 0xFC2757D1F534DDC0, 0xDB6295993C439041, 0xFE5163ABDEBBC561,
    0xB7246E3A424DD2E0, 0x06492EEA09D1921C, 0xFE1DEB1CB129A73E, 0xE88235F52EBB4484,
    0xE99C7026B45F7E41, 0x3991D639835339F4, 0x9C845F8BBDF9283B, 0x1FF897FFDE05980F,
    0xEF2F118B5A0A6D1F, 0x6D367ECF27CB09B7, 0x4F463F669E5FEA2D, 0x7527BAC7EBE5F17B,
    0x3D0739F78A5292EA, 0x6BFB5FB11F8D5D08, 0x56033046FC7B0000, 0x0000000000000000,
};

static double segment(double a, uint32_t which)
{
    uint32_t exponent = (uint32_t)sp_exponent64(a), shift = (which & 31) * 53 + (exponent > 1077 ? exponent - 1077 : 0);
    uint32_t word = shift / 64, bit = shift % 64;
    uint64_t high = word < 20 ? two_over_pi[word] : 0, low = word < 19 ? two_over_pi[word + 1] : 0;
    uint64_t digits = (bit ? high << bit | low >> (64 - bit) : high) >> 11;
    return ldexp((double)digits, -53 - (int)shift + (exponent >= 1968 ? 128 : 0));
}

HEAD(V_TRIG_PREOP_F64)
{
    uint32_t tb[SP_LANES];
    uint64_t ta[SP_LANES];
    double r[SP_LANES];
    const double *a = sp_srcd(w, i, 0, ta);
    const uint32_t *b = sp_src(w, i, 1, tb);
    EACH(l) r[l] = segment(a[l], b[l]);
    return sp_putd(w, i, r);
}

/* --- interpolation: an attribute's values at the corners are in lanes 0 to 2 of each quad, active or not --- */

/* Stores in `to` the value of src[k] in lane `from` of each quad. With `from` -1, each lane gets
 * its own value. */
static void corner(struct sp_wave *w, const struct sp_inst *i, unsigned k, int from, bool half, float *to)
{
    uint32_t t[SP_LANES], code = i->src[k], shift = (i->op_sel >> k & 1) * 16u, flip = (i->neg >> k & 1u) << 31;
    const uint32_t *lanes = t;
    if (from < 0 || code < SP_SRC_VGPR)
        lanes = sp_src_as(w, i, k, t, half ? SP_B16 : SP_B32);
    else
        lanes = w->v[code & 255];
    EACH(l) {
        uint32_t at = from < 0 || code < SP_SRC_VGPR ? l : (l & ~3u) + (uint32_t)from, h = lanes[at] >> shift & 0xFFFF;
        bool read = w->exec >> l & 1;
        if (read && code >= SP_SRC_VGPR && !(w->vgpr_ready[code & 255] >> at & 1)) sp_wave_not_ready(w, i, code);
        if (!(w->mode & SP_MODE_KEEP64_IN) && !(h & 0x7C00)) h &= 0x8000;
        float value = half ? sp_half_to_float(h) : sp_f32(lanes[at]);
        to[l] = sp_f32(sp_u32(!half && sp_flush32_in(w) ? sp_flush32(value) : value) ^ flip);
    }
}

static void interpolate(struct sp_wave *w, const struct sp_inst *i, int first, int last, bool half, float *r)
{
    float a[SP_LANES], b[SP_LANES], c[SP_LANES];
    corner(w, i, 0, first, half, a);
    corner(w, i, 1, -1, false, b);
    corner(w, i, 2, last, half && last >= 0, c);
    EACH(l) r[l] = fmaf(a[l], b[l], c[l]);
}

static int interpolate_f32(struct sp_wave *w, const struct sp_inst *i, int first, int last, bool half)
{
    float r[SP_LANES];
    interpolate(w, i, first, last, half, r);
    return sp_putf(w, i, r);
}

static int interpolate_f16(struct sp_wave *w, const struct sp_inst *i, uint32_t rounding)
{
    float f[SP_LANES];
    uint32_t r[SP_LANES];
    interpolate(w, i, 2, -1, true, f);
    uint32_t mode = w->mode;
    w->mode = (mode & ~(uint32_t)SP_MODE_ROUND64) | rounding << 2;
    EACH(l) r[l] = sp_half_result(w, i, (double)f[l]);
    w->mode = mode;
    return sp_put16(w, i, r);
}
HEAD(V_INTERP_P10_F32) { return interpolate_f32(w, i, 1, 0, false); }
HEAD(V_INTERP_P2_F32_INREG) { return interpolate_f32(w, i, 2, -1, false); }
HEAD(V_INTERP_P10_F16_F32) { return interpolate_f32(w, i, 1, 0, true); }
HEAD(V_INTERP_P10_RTZ_F16_F32) { return interpolate_f32(w, i, 1, 0, true); }
HEAD(V_INTERP_P2_F16_F32) { return interpolate_f16(w, i, w->mode >> 2 & 3); }
HEAD(V_INTERP_P2_RTZ_F16_F32) { return interpolate_f16(w, i, 3); }

/* --- LDS_DIRECT_LOAD copies one value from LDS to all lanes. M0 has the address of the value and,
 * from bit 16, its type. --- */
HEAD(LDS_DIRECT_LOAD)
{
    uint32_t m0 = sp_s32(w, i, SP_SRC_M0), type = m0 >> 16 & 7, value = 0, nbytes = type == 2 ? 4 : 1 + (type & 1);
    uint32_t r[SP_LANES];
    if (w->stop) return (int)w->stop;
    if (type == 3 || type > 5)
        return sp_wave_fault(w, SP_FAULT_OPERAND, "%s: M0 0x%x has the invalid type %u", sp_wave_op_name(i->op), m0, type);
    if (sp_lds_use(w, i, 0, m0 & 0xFFFF, &value, nbytes)) return SP_WAVE_FAULT;
    sp_fill(w, r, type == 4 ? (uint32_t)(int8_t)value : type == 5 ? (uint32_t)(int16_t)value : value);
    return sp_put(w, i, r);
}

#define E SP_OP_ENTRY
const struct sp_wave_op sp_wave_rare[] = {
    E(V_QSAD_PK_U16_U8) E(V_MQSAD_PK_U16_U8) E(V_MQSAD_U32_U8) E(V_CUBEID_F32) E(V_CUBESC_F32) E(V_CUBETC_F32)
    E(V_CUBEMA_F32) E(V_MULLIT_F32) E(V_TRIG_PREOP_F64) E(V_INTERP_P10_F32) E(V_INTERP_P2_F32_INREG) E(V_INTERP_P10_F16_F32)
    E(V_INTERP_P10_RTZ_F16_F32) E(V_INTERP_P2_F16_F32) E(V_INTERP_P2_RTZ_F16_F32) E(LDS_DIRECT_LOAD) SP_OP_END};
