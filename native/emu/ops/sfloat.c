/* Floating-point instructions of the scalar ALU: RDNA3.5 (gfx11.5). MODE's rounding and denormals
 * apply as for vectors; only compares set SCC. A 16-bit result clears the upper half: no source
 * says otherwise, and LLVM never reads that half. */
#include "emu/ops/families.h"
#include "emu/ops/lanes_math.h"
#include "emu/ops/half.h"

#define HEAD(NAME) static int NAME(struct sp_wave *w, const struct sp_inst *i)
#define IEEE ((w->mode & SP_MODE_IEEE) != 0)

static float f32(struct sp_wave *w, const struct sp_inst *i, uint32_t code)
{
    float x = sp_f32(sp_s32(w, i, code));
    return sp_flush32_in(w) ? sp_flush32(x) : x;
}

static int put_f32(struct sp_wave *w, const struct sp_inst *i, float x)
{
    sp_put_s32(w, i, i->dst, sp_u32(sp_flush32_out(w) ? sp_flush32(x) : x));
    return (int)w->stop;
}

static double f16(struct sp_wave *w, const struct sp_inst *i, uint32_t code)
{
    bool constant = code >= 240 && code <= 248;
    uint32_t h = constant ? (uint32_t)sp_operand_special(w, i, code, SP_B16) : sp_s32(w, i, code) & 0xFFFF;
    return (double)sp_half_to_float(!(w->mode & SP_MODE_KEEP64_IN) && (h & 0x7C00) == 0 ? h & 0x8000 : h);
}

static int put_f16(struct sp_wave *w, const struct sp_inst *i, double x)
{
    sp_put_s32(w, i, i->dst, sp_half_result(w, i, x));
    return (int)w->stop;
}

/* X(name, C type of the sources, format of sources and result, expression of the sources a and
 * b) */
#define ONE(X)                                                                                                        \
    X(S_CEIL_F32, float, f32, ceilf(a)) X(S_FLOOR_F32, float, f32, floorf(a)) X(S_TRUNC_F32, float, f32, truncf(a))   \
    X(S_RNDNE_F32, float, f32, __builtin_roundevenf(a)) X(S_CEIL_F16, double, f16, ceil(a))                           \
    X(S_FLOOR_F16, double, f16, floor(a)) X(S_TRUNC_F16, double, f16, trunc(a))                                       \
    X(S_RNDNE_F16, double, f16, __builtin_roundeven(a))
#define DEFINE_ONE(NAME, TYPE, SIZE, EXPR)                                                                            \
    HEAD(NAME)                                                                                                        \
    {                                                                                                                 \
        TYPE a = SIZE(w, i, i->src[0]);                                                                               \
        return put_##SIZE(w, i, EXPR);                                                                                \
    }
ONE(DEFINE_ONE)

#define TWO(X)                                                                                                        \
    X(S_ADD_F32, float, f32, a + b) X(S_SUB_F32, float, f32, a - b) X(S_MUL_F32, float, f32, a *b)                    \
    X(S_MIN_F32, float, f32, sp_min32(a, b, IEEE)) X(S_MAX_F32, float, f32, sp_max32(a, b, IEEE))                     \
    X(S_ADD_F16, double, f16, a + b) X(S_SUB_F16, double, f16, a - b) X(S_MUL_F16, double, f16, a *b)                 \
    X(S_MIN_F16, double, f16, sp_min64(a, b, IEEE)) X(S_MAX_F16, double, f16, sp_max64(a, b, IEEE))
#define DEFINE_TWO(NAME, TYPE, SIZE, EXPR)                                                                            \
    HEAD(NAME)                                                                                                        \
    {                                                                                                                 \
        TYPE a = SIZE(w, i, i->src[0]), b = SIZE(w, i, i->src[1]);                                                    \
        return put_##SIZE(w, i, EXPR);                                                                                \
    }
TWO(DEFINE_TWO)

HEAD(S_FMAC_F32) { return put_f32(w, i, fmaf(f32(w, i, i->src[0]), f32(w, i, i->src[1]), f32(w, i, i->dst))); }
HEAD(S_FMAAK_F32) { return put_f32(w, i, fmaf(f32(w, i, i->src[0]), f32(w, i, i->src[1]), f32(w, i, SP_SRC_LITERAL))); }
HEAD(S_FMAMK_F32) { return put_f32(w, i, fmaf(f32(w, i, i->src[0]), f32(w, i, SP_SRC_LITERAL), f32(w, i, i->src[1]))); }
HEAD(S_FMAC_F16) { return put_f16(w, i, sp_half_fma(f16(w, i, i->src[0]), f16(w, i, i->src[1]), f16(w, i, i->dst))); }

/* --- conversions to and from floats --- */
HEAD(S_CVT_F32_I32) { return put_f32(w, i, (float)(int32_t)sp_s32(w, i, i->src[0])); }
HEAD(S_CVT_F32_U32) { return put_f32(w, i, (float)sp_s32(w, i, i->src[0])); }
HEAD(S_CVT_F16_F32) { return put_f16(w, i, (double)f32(w, i, i->src[0])); }
HEAD(S_CVT_F32_F16) { return put_f32(w, i, (float)f16(w, i, i->src[0])); }

HEAD(S_CVT_HI_F32_F16)
{
    uint32_t h = sp_s32(w, i, i->src[0]) >> 16;
    return put_f32(w, i, sp_half_to_float(!(w->mode & SP_MODE_KEEP64_IN) && (h & 0x7C00) == 0 ? h & 0x8000 : h));
}

HEAD(S_CVT_I32_F32)
{
    sp_put_s32(w, i, i->dst, (uint32_t)sp_to_i32f(f32(w, i, i->src[0])));
    return (int)w->stop;
}

HEAD(S_CVT_U32_F32)
{
    sp_put_s32(w, i, i->dst, sp_to_u32f(f32(w, i, i->src[0])));
    return (int)w->stop;
}

HEAD(S_CVT_PK_RTZ_F16_F32)
{
    uint32_t low = sp_half_from_double((double)f32(w, i, i->src[0]), 3);
    sp_put_s32(w, i, i->dst, low | sp_half_from_double((double)f32(w, i, i->src[1]), 3) << 16);
    return (int)w->stop;
}

/* --- compares, which set SCC --- */
#define COMPARES(X)                                                                                                   \
    X(LT, a < b) X(EQ, a == b) X(LE, a <= b) X(GT, a > b) X(LG, a < b || a > b) X(GE, a >= b) X(O, a == a && b == b)  \
    X(U, a != a || b != b) X(NGE, !(a >= b)) X(NLG, !(a < b || a > b)) X(NGT, !(a > b)) X(NLE, !(a <= b))             \
    X(NEQ, a != b) X(NLT, !(a < b))
#define DEFINE_COMPARE(NAME, EXPR)                                                                                    \
    HEAD(S_CMP_##NAME##_F32)                                                                                          \
    {                                                                                                                 \
        float a = f32(w, i, i->src[0]), b = f32(w, i, i->src[1]);                                                     \
        w->scc = EXPR;                                                                                                \
        return (int)w->stop;                                                                                          \
    }                                                                                                                 \
    HEAD(S_CMP_##NAME##_F16)                                                                                          \
    {                                                                                                                 \
        double a = f16(w, i, i->src[0]), b = f16(w, i, i->src[1]);                                                    \
        w->scc = EXPR;                                                                                                \
        return (int)w->stop;                                                                                          \
    }
COMPARES(DEFINE_COMPARE)
#define ENTRY_COMPARE(NAME, EXPR) SP_OP_ENTRY(S_CMP_##NAME##_F32) SP_OP_ENTRY(S_CMP_##NAME##_F16)

/* Does nothing: the instruction is a hint about registers of the next instruction. */
HEAD(S_SINGLEUSE_VDST)
{
    (void)w, (void)i;
    return 0;
}

#define E SP_OP_ENTRY
const struct sp_wave_op sp_wave_sfloat[] = {
    ONE(E) TWO(E) COMPARES(ENTRY_COMPARE) E(S_FMAC_F32) E(S_FMAAK_F32) E(S_FMAMK_F32) E(S_FMAC_F16) E(S_CVT_F32_I32)
    E(S_CVT_F32_U32) E(S_CVT_F16_F32) E(S_CVT_F32_F16) E(S_CVT_HI_F32_F16) E(S_CVT_I32_F32) E(S_CVT_U32_F32)
    E(S_CVT_PK_RTZ_F16_F32) E(S_SINGLEUSE_VDST) SP_OP_END};
