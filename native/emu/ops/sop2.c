/* Scalar ALU with two sources: SOP2 and SOPC. One function per instruction, named as in RDNA3's ISA
 * document. */
#include "families.h"
#include "salu.h"

static uint32_t sub_overflows(uint32_t a, uint32_t b, uint32_t r) { return ((a ^ b) & (a ^ r)) >> 31; }
static uint64_t low_ones(uint32_t n) { return n >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << n) - 1; }

static uint64_t bfe_i(uint64_t value, uint32_t shift, uint32_t width, uint32_t bits)
{
    if (!width) return 0;
    value >>= shift;
    if (width >= bits) width = bits;
    uint64_t sign = UINT64_C(1) << (width - 1);
    value &= low_ones(width);
    return (value ^ sign) - sign;
}

/* --- two sources of 32 bits --- */
#define SOP2_32(X)                                                                                                    \
    X(S_ADD_U32, a + b, r < a)                                                                                        \
    X(S_SUB_U32, a - b, a < b)                                                                                        \
    X(S_ADD_I32, a + b, add_overflows(a, b, r))                                                                       \
    X(S_SUB_I32, a - b, sub_overflows(a, b, r))                                                                       \
    X(S_ABSDIFF_I32, (int32_t)a > (int32_t)b ? a - b : b - a, r)                                                      \
    X(S_MIN_I32, (int32_t)a < (int32_t)b ? a : b, (int32_t)a < (int32_t)b)                                            \
    X(S_MIN_U32, a < b ? a : b, a < b)                                                                                \
    X(S_MAX_I32, (int32_t)a >= (int32_t)b ? a : b, (int32_t)a >= (int32_t)b)                                          \
    X(S_MAX_U32, a >= b ? a : b, a >= b)                                                                              \
    X(S_AND_B32, a & b, r)                                                                                            \
    X(S_OR_B32, a | b, r)                                                                                             \
    X(S_XOR_B32, a ^ b, r)                                                                                            \
    X(S_NAND_B32, ~(a & b), r)                                                                                        \
    X(S_NOR_B32, ~(a | b), r)                                                                                         \
    X(S_XNOR_B32, ~(a ^ b), r)                                                                                        \
    X(S_AND_NOT1_B32, a & ~b, r)                                                                                      \
    X(S_OR_NOT1_B32, a | ~b, r)                                                                                       \
    X(S_LSHL_B32, a << (b & 31), r)                                                                                   \
    X(S_LSHR_B32, a >> (b & 31), r)                                                                                   \
    X(S_ASHR_I32, (int32_t)a >> (b & 31), r)                                                                          \
    X(S_LSHL1_ADD_U32, (a << 1) + b, ((uint64_t)a << 1) + b > UINT32_MAX)                                             \
    X(S_LSHL2_ADD_U32, (a << 2) + b, ((uint64_t)a << 2) + b > UINT32_MAX)                                             \
    X(S_LSHL3_ADD_U32, (a << 3) + b, ((uint64_t)a << 3) + b > UINT32_MAX)                                             \
    X(S_LSHL4_ADD_U32, (a << 4) + b, ((uint64_t)a << 4) + b > UINT32_MAX)                                             \
    X(S_BFE_U32, (a >> (b & 31)) & low_ones(b >> 16 & 127), r)                                                        \
    X(S_BFE_I32, bfe_i(a, b & 31, b >> 16 & 127, 32), r)

#define DEFINE_SOP2_32(NAME, EXPR, SCC)                                                                               \
    HEAD(NAME)                                                                                                        \
    {                                                                                                                 \
        uint32_t a = sp_s32(w, i, i->src[0]);                                                  \
        uint32_t b = sp_s32(w, i, i->src[1]), r = (uint32_t)(EXPR);                            \
        w->scc = (SCC) != 0;                                                                                          \
        sp_put_s32(w, i, i->dst, r);                                                                                  \
        return (int)w->stop;                                                                                          \
    }
SOP2_32(DEFINE_SOP2_32)

#define SOP2_CARRY(X)                                                                                                 \
    X(S_ADDC_U32, a + b + old, (uint64_t)a + b + old > UINT32_MAX)                                                    \
    X(S_SUBB_U32, a - b - old, (uint64_t)b + old > a)
#define DEFINE_SOP2_CARRY(NAME, EXPR, SCC)                                                                            \
    HEAD(NAME)                                                                                                        \
    {                                                                                                                 \
        uint32_t old = sp_scc(w, i), a = sp_s32(w, i, i->src[0]);                                                     \
        uint32_t b = sp_s32(w, i, i->src[1]), r = (uint32_t)(EXPR);                            \
        w->scc = SCC;                                                                                                 \
        sp_put_s32(w, i, i->dst, r);                                                                                  \
        return (int)w->stop;                                                                                          \
    }
SOP2_CARRY(DEFINE_SOP2_CARRY)

#define SOP2_32_KEEP(X)                                                                                               \
    X(S_BFM_B32, low_ones(a & 31) << (b & 31))                                                                        \
    X(S_MUL_I32, a *b)                                                                                                \
    X(S_MUL_HI_U32, (uint64_t)a *b >> 32)                                                                             \
    X(S_MUL_HI_I32, (int64_t)(int32_t)a *(int32_t)b >> 32)                                                            \
    X(S_PACK_LL_B32_B16, (a & 0xFFFF) | b << 16)                                                                      \
    X(S_PACK_LH_B32_B16, (a & 0xFFFF) | (b & 0xFFFF0000))                                                             \
    X(S_PACK_HH_B32_B16, a >> 16 | (b & 0xFFFF0000))                                                                  \
    X(S_PACK_HL_B32_B16, a >> 16 | b << 16)
#define DEFINE_SOP2_32_KEEP(NAME, EXPR)                                                                               \
    HEAD(NAME)                                                                                                        \
    {                                                                                                                 \
        uint32_t a = sp_s32(w, i, i->src[0]);                                                  \
        uint32_t b = sp_s32(w, i, i->src[1]);                                                  \
        sp_put_s32(w, i, i->dst, (uint32_t)(EXPR));                                                                   \
        return (int)w->stop;                                                                                          \
    }
SOP2_32_KEEP(DEFINE_SOP2_32_KEEP)

/* --- two sources of 64 bits; the second source of shifts has 32 bits --- */
#define SOP2_64(X)                                                                                                    \
    X(S_AND_B64, a & b, r)                                                                                            \
    X(S_OR_B64, a | b, r)                                                                                             \
    X(S_XOR_B64, a ^ b, r)                                                                                            \
    X(S_NAND_B64, ~(a & b), r)                                                                                        \
    X(S_NOR_B64, ~(a | b), r)                                                                                         \
    X(S_XNOR_B64, ~(a ^ b), r)                                                                                        \
    X(S_AND_NOT1_B64, a & ~b, r)                                                                                      \
    X(S_OR_NOT1_B64, a | ~b, r)
#define DEFINE_SOP2_64(NAME, EXPR, SCC)                                                                               \
    HEAD(NAME)                                                                                                        \
    {                                                                                                                 \
        uint64_t a = sp_s64(w, i, i->src[0]);                                                  \
        uint64_t b = sp_s64(w, i, i->src[1]), r = EXPR;                                        \
        w->scc = (SCC) != 0;                                                                                          \
        sp_put_s64(w, i, i->dst, r);                                                                                  \
        return (int)w->stop;                                                                                          \
    }
SOP2_64(DEFINE_SOP2_64)

/* The source that is not chosen may be undefined. */
HEAD(S_CSELECT_B32) { RESULT32_KEEP(sp_s32(w, i, i->src[sp_scc(w, i) ? 0 : 1])) }
HEAD(S_CSELECT_B64) { RESULT64_KEEP(sp_s64(w, i, i->src[sp_scc(w, i) ? 0 : 1])) }

#define SOP2_SHIFT64(X)                                                                                               \
    X(S_LSHL_B64, a << (b & 63), r)                                                                                   \
    X(S_LSHR_B64, a >> (b & 63), r)                                                                                   \
    X(S_ASHR_I64, (int64_t)a >> (b & 63), r)                                                                          \
    X(S_BFE_U64, (a >> (b & 63)) & low_ones(b >> 16 & 127), r)                                                        \
    X(S_BFE_I64, bfe_i(a, b & 63, b >> 16 & 127, 64), r)
#define DEFINE_SOP2_SHIFT64(NAME, EXPR, SCC)                                                                          \
    HEAD(NAME)                                                                                                        \
    {                                                                                                                 \
        uint64_t a = sp_s64(w, i, i->src[0]);\
        uint32_t b = sp_s32(w, i, i->src[1]);                                                                         \
        uint64_t r = (uint64_t)(EXPR);                                                                                \
        w->scc = (SCC) != 0;                                                                                          \
        sp_put_s64(w, i, i->dst, r);                                                                                  \
        return (int)w->stop;                                                                                          \
    }
SOP2_SHIFT64(DEFINE_SOP2_SHIFT64)

HEAD(S_BFM_B64)
{
    uint32_t a = sp_s32(w, i, i->src[0]), b = sp_s32(w, i, i->src[1]);
    RESULT64_KEEP(low_ones(a & 63) << (b & 63))
}

/* --- compares, which set SCC --- */
#define SOPC_32(X)                                                                                                    \
    X(S_CMP_EQ_I32, a == b)                                                                                           \
    X(S_CMP_LG_I32, a != b)                                                                                           \
    X(S_CMP_GT_I32, (int32_t)a > (int32_t)b)                                                                          \
    X(S_CMP_GE_I32, (int32_t)a >= (int32_t)b)                                                                         \
    X(S_CMP_LT_I32, (int32_t)a < (int32_t)b)                                                                          \
    X(S_CMP_LE_I32, (int32_t)a <= (int32_t)b)                                                                         \
    X(S_CMP_EQ_U32, a == b)                                                                                           \
    X(S_CMP_LG_U32, a != b)                                                                                           \
    X(S_CMP_GT_U32, a > b)                                                                                            \
    X(S_CMP_GE_U32, a >= b)                                                                                           \
    X(S_CMP_LT_U32, a < b)                                                                                            \
    X(S_CMP_LE_U32, a <= b)                                                                                           \
    X(S_BITCMP0_B32, !(a >> (b & 31) & 1))                                                                            \
    X(S_BITCMP1_B32, a >> (b & 31) & 1)
#define DEFINE_SOPC_32(NAME, EXPR)                                                                                    \
    HEAD(NAME)                                                                                                        \
    {                                                                                                                 \
        uint32_t a = sp_s32(w, i, i->src[0]), b = sp_s32(w, i, i->src[1]);                                            \
        w->scc = EXPR;                                                                                                \
        return (int)w->stop;                                                                                          \
    }
SOPC_32(DEFINE_SOPC_32)

#define SOPC_64(X)                                                                                                    \
    X(S_CMP_EQ_U64, sp_s64, a == b)                                                                                   \
    X(S_CMP_LG_U64, sp_s64, a != b)                                                                                   \
    X(S_BITCMP0_B64, sp_s32, !(a >> (b & 63) & 1))                                                                    \
    X(S_BITCMP1_B64, sp_s32, (a >> (b & 63) & 1) != 0)
#define DEFINE_SOPC_64(NAME, SECOND, EXPR)                                                                            \
    HEAD(NAME)                                                                                                        \
    {                                                                                                                 \
        uint64_t a = sp_s64(w, i, i->src[0]), b = SECOND(w, i, i->src[1]);                                            \
        w->scc = EXPR;                                                                                                \
        return (int)w->stop;                                                                                          \
    }
SOPC_64(DEFINE_SOPC_64)

#define E SP_OP_ENTRY
const struct sp_wave_op sp_wave_sop2[] = {
    SOP2_32(E) SOP2_CARRY(E) SOP2_32_KEEP(E) SOP2_64(E) E(S_CSELECT_B32) E(S_CSELECT_B64) SOP2_SHIFT64(E) E(S_BFM_B64) SOPC_32(E) SOPC_64(E) SP_OP_END};
