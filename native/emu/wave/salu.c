/* Scalar ALU: SOP1, SOP2, SOPC, SOPK. One function an instruction, named as RDNA3's ISA document names it; each line gives
 * result and SCC, `old` being SCC as it was. Long because it is a list: 190 instructions, two lines each at most. */
#include "operand.h"

#define RESULT32(value, scc_value)                                                                                    \
    uint32_t r = (uint32_t)(value);                                                                                   \
    w->scc = (scc_value) != 0;                                                                                        \
    sp_put_s32(w, i, i->dst, r);                                                                                      \
    return (int)w->stop;
#define RESULT64(value, scc_value)                                                                                    \
    uint64_t r = (uint64_t)(value);                                                                                   \
    w->scc = (scc_value) != 0;                                                                                        \
    sp_put_s64(w, i, i->dst, r);                                                                                      \
    return (int)w->stop;
#define HEAD(NAME) static int NAME(struct sp_wave *w, const struct sp_inst *i)
#define OLD uint32_t old = w->scc; (void)old;

static uint32_t add_overflows(uint32_t a, uint32_t b, uint32_t r) { return (~(a ^ b) & (a ^ r)) >> 31; }
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

/* clang prepares scratch of functions that use none: it adds an offset that nobody gave. EXEC and M0, which something is
 * always done with, may not be undefined. A lane mask that is undefined before a loop gets its lanes one by one: what
 * is left of the old one is taken to be lanes that nobody asks for (LLVM merges masks so: ANDN2 with EXEC, then OR). */
static void undefined_result(struct sp_wave *w, const struct sp_inst *i, uint32_t count)
{
    if (i->op == SP_OP_S_AND_NOT1_B32 || i->op == SP_OP_S_AND_NOT1_B64 || !w->strict || i->dst == SP_SRC_NULL) return;
    if (i->dst >= SP_SRC_M0) {
        sp_wave_not_ready(w, i, sp_undefined(w, i->src[0], count) ? i->src[0] : i->src[1]);
        return;
    }
    for (uint32_t k = 0; k < count; k++) w->sgpr_ready[i->dst + k] = 0;
}

/* --- two sources, 32 bits --- */
#define SOP2_32(X)                                                                                                    \
    X(S_ADD_U32, a + b, r < a)                                                                                        \
    X(S_SUB_U32, a - b, a < b)                                                                                        \
    X(S_ADD_I32, a + b, add_overflows(a, b, r))                                                                       \
    X(S_SUB_I32, a - b, sub_overflows(a, b, r))                                                                       \
    X(S_ADDC_U32, a + b + old, (uint64_t)a + b + old > UINT32_MAX)                                                    \
    X(S_SUBB_U32, a - b - old, (uint64_t)b + old > a)                                                                 \
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
    X(S_BFE_I32, bfe_i(a, b & 31, b >> 16 & 127, 32), r)                                                              \
    X(S_BFM_B32, low_ones(a & 31) << (b & 31), old)                                                                   \
    X(S_MUL_I32, a *b, old)                                                                                           \
    X(S_MUL_HI_U32, (uint64_t)a *b >> 32, old)                                                                        \
    X(S_MUL_HI_I32, (int64_t)(int32_t)a *(int32_t)b >> 32, old)                                                       \
    X(S_CSELECT_B32, old ? a : b, old)                                                                                \
    X(S_PACK_LL_B32_B16, (a & 0xFFFF) | b << 16, old)                                                                 \
    X(S_PACK_LH_B32_B16, (a & 0xFFFF) | (b & 0xFFFF0000), old)                                                        \
    X(S_PACK_HH_B32_B16, a >> 16 | (b & 0xFFFF0000), old)                                                             \
    X(S_PACK_HL_B32_B16, a >> 16 | b << 16, old)

#define DEFINE_SOP2_32(NAME, EXPR, SCC)                                                                               \
    HEAD(NAME)                                                                                                        \
    {                                                                                                                 \
        bool defined = true;                                                                                          \
        OLD uint32_t a = sp_s32_or_undefined(w, i, i->src[0], &defined);                                              \
        uint32_t b = sp_s32_or_undefined(w, i, i->src[1], &defined), r = (uint32_t)(EXPR);                            \
        w->scc = (SCC) != 0;                                                                                          \
        sp_put_s32(w, i, i->dst, r);                                                                                  \
        if (!defined) undefined_result(w, i, 1);                                                                       \
        return (int)w->stop;                                                                                          \
    }
SOP2_32(DEFINE_SOP2_32)

/* --- two sources, 64 bits; shifts take a 32-bit second one --- */
#define SOP2_64(X)                                                                                                    \
    X(S_AND_B64, a & b, r)                                                                                            \
    X(S_OR_B64, a | b, r)                                                                                             \
    X(S_XOR_B64, a ^ b, r)                                                                                            \
    X(S_NAND_B64, ~(a & b), r)                                                                                        \
    X(S_NOR_B64, ~(a | b), r)                                                                                         \
    X(S_XNOR_B64, ~(a ^ b), r)                                                                                        \
    X(S_AND_NOT1_B64, a & ~b, r)                                                                                      \
    X(S_OR_NOT1_B64, a | ~b, r)                                                                                       \
    X(S_CSELECT_B64, old ? a : b, old)
#define DEFINE_SOP2_64(NAME, EXPR, SCC)                                                                               \
    HEAD(NAME)                                                                                                        \
    {                                                                                                                 \
        bool defined = true;                                                                                          \
        OLD uint64_t a = sp_s64_or_undefined(w, i, i->src[0], &defined);                                              \
        uint64_t b = sp_s64_or_undefined(w, i, i->src[1], &defined), r = EXPR;                                        \
        w->scc = (SCC) != 0;                                                                                          \
        sp_put_s64(w, i, i->dst, r);                                                                                  \
        if (!defined) undefined_result(w, i, 2);                                                                      \
        return (int)w->stop;                                                                                          \
    }
SOP2_64(DEFINE_SOP2_64)

#define SOP2_SHIFT64(X)                                                                                               \
    X(S_LSHL_B64, a << (b & 63), r)                                                                                   \
    X(S_LSHR_B64, a >> (b & 63), r)                                                                                   \
    X(S_ASHR_I64, (int64_t)a >> (b & 63), r)                                                                          \
    X(S_BFE_U64, (a >> (b & 63)) & low_ones(b >> 16 & 127), r)                                                        \
    X(S_BFE_I64, bfe_i(a, b & 63, b >> 16 & 127, 64), r)
#define DEFINE_SOP2_SHIFT64(NAME, EXPR, SCC)                                                                          \
    HEAD(NAME)                                                                                                        \
    {                                                                                                                 \
        uint64_t a = sp_s64(w, i, i->src[0]);                                                                         \
        uint32_t b = sp_s32(w, i, i->src[1]);                                                                         \
        RESULT64(EXPR, SCC)                                                                                           \
    }
SOP2_SHIFT64(DEFINE_SOP2_SHIFT64)

HEAD(S_BFM_B64)
{
    uint32_t a = sp_s32(w, i, i->src[0]), b = sp_s32(w, i, i->src[1]);
    RESULT64(low_ones(a & 63) << (b & 63), w->scc)
}

/* --- one source --- */
static uint32_t ctz32(uint32_t a) { return a ? (uint32_t)__builtin_ctz(a) : UINT32_MAX; }
static uint32_t ctz64(uint64_t a) { return a ? (uint32_t)__builtin_ctzll(a) : UINT32_MAX; }
static uint32_t clz32(uint32_t a) { return a ? (uint32_t)__builtin_clz(a) : UINT32_MAX; }
static uint32_t clz64(uint64_t a) { return a ? (uint32_t)__builtin_clzll(a) : UINT32_MAX; }
static uint32_t cls32(uint32_t a) { return a + 1 > 1 ? clz32((int32_t)a < 0 ? ~a : a) : UINT32_MAX; }
static uint32_t cls64(uint64_t a) { return a + 1 > 1 ? clz64((int64_t)a < 0 ? ~a : a) : UINT32_MAX; }

static uint64_t reverse(uint64_t a, uint32_t bits)
{
    uint64_t r = 0;
    for (uint32_t n = 0; n < bits; n++) r |= (a >> n & 1) << (bits - 1 - n);
    return r;
}

/* Each group of four bits that has one set: a bit of the result, or four. */
static uint64_t quads(uint64_t a, bool whole)
{
    uint64_t r = 0;
    for (uint32_t q = 0; q < 16; q++)
        if (a >> 4 * q & 15) r |= whole ? UINT64_C(15) << 4 * q : UINT64_C(1) << q;
    return r;
}

static uint64_t replicate(uint32_t a)
{
    uint64_t r = 0;
    for (uint32_t n = 0; n < 32; n++) r |= (a >> n & 1 ? UINT64_C(3) : 0) << 2 * n;
    return r;
}

#define SOP1_32(X)                                                                                                    \
    X(S_NOT_B32, ~a, r)                                                                                               \
    X(S_WQM_B32, quads(a, true), r)                                                                                   \
    X(S_QUADMASK_B32, quads(a, false), r)                                                                             \
    X(S_BREV_B32, reverse(a, 32), old)                                                                                \
    X(S_BCNT0_I32_B32, 32u - (uint32_t)__builtin_popcount(a), r)                                                                 \
    X(S_BCNT1_I32_B32, __builtin_popcount(a), r)                                                                      \
    X(S_CTZ_I32_B32, ctz32(a), old)                                                                                   \
    X(S_FF0_I32_B32, ctz32(~a), old)                                                                                  \
    X(S_CLZ_I32_U32, clz32(a), old)                                                                                   \
    X(S_CLS_I32, cls32(a), old)                                                                                       \
    X(S_SEXT_I32_I8, (int8_t)a, old)                                                                                  \
    X(S_SEXT_I32_I16, (int16_t)a, old)                                                                                \
    X(S_ABS_I32, (int32_t)a < 0 ? 0u - a : a, r)
#define DEFINE_SOP1_32(NAME, EXPR, SCC)                                                                               \
    HEAD(NAME)                                                                                                        \
    {                                                                                                                 \
        OLD uint32_t a = sp_s32(w, i, i->src[0]);                                                                     \
        RESULT32(EXPR, SCC)                                                                                           \
    }
SOP1_32(DEFINE_SOP1_32)

#define SOP1_64(X)                                                                                                    \
    X(S_NOT_B64, ~a, r)                                                                                               \
    X(S_WQM_B64, quads(a, true), r)                                                                                   \
    X(S_QUADMASK_B64, quads(a, false), r)                                                                             \
    X(S_BREV_B64, reverse(a, 64), old)
#define DEFINE_SOP1_64(NAME, EXPR, SCC)                                                                               \
    HEAD(NAME)                                                                                                        \
    {                                                                                                                 \
        OLD uint64_t a = sp_s64(w, i, i->src[0]);                                                                     \
        RESULT64(EXPR, SCC)                                                                                           \
    }
SOP1_64(DEFINE_SOP1_64)

#define SOP1_64_TO_32(X)                                                                                              \
    X(S_BCNT0_I32_B64, 64 - __builtin_popcountll(a), r)                                                               \
    X(S_BCNT1_I32_B64, __builtin_popcountll(a), r)                                                                    \
    X(S_CTZ_I32_B64, ctz64(a), old)                                                                                   \
    X(S_FF0_I32_B64, ctz64(~a), old)                                                                                  \
    X(S_CLZ_I32_U64, clz64(a), old)                                                                                   \
    X(S_CLS_I32_I64, cls64(a), old)
#define DEFINE_SOP1_64_TO_32(NAME, EXPR, SCC)                                                                         \
    HEAD(NAME)                                                                                                        \
    {                                                                                                                 \
        OLD uint64_t a = sp_s64(w, i, i->src[0]);                                                                     \
        RESULT32(EXPR, SCC)                                                                                           \
    }
SOP1_64_TO_32(DEFINE_SOP1_64_TO_32)

HEAD(S_MOV_B32)
{
    uint32_t code = i->src[0];
    bool ready = sp_copy_ready(w, i, code);
    sp_put_s32(w, i, i->dst, ready ? sp_s32(w, i, code) : w->s[code]);
    if (i->dst != SP_SRC_NULL) w->sgpr_ready[i->dst & 127] = ready;
    return (int)w->stop;
}

HEAD(S_MOV_B64)
{
    uint32_t code = i->src[0];
    bool low = sp_copy_ready(w, i, code), high = code >= SP_SGPRS - 1 || sp_copy_ready(w, i, code + 1);
    bool ready = low && high;
    sp_put_s64(w, i, i->dst, ready ? sp_s64(w, i, code) : w->s[code] | (uint64_t)w->s[code + 1] << 32);
    if (ready || i->dst == SP_SRC_NULL) return (int)w->stop;
    w->sgpr_ready[i->dst & 127] = low;
    w->sgpr_ready[(i->dst + 1) & 127] = high;
    return (int)w->stop;
}

HEAD(S_BITREPLICATE_B64_B32)
{
    RESULT64(replicate(sp_s32(w, i, i->src[0])), w->scc)
}

HEAD(S_CMOV_B32)
{
    if (w->scc) sp_put_s32(w, i, i->dst, sp_s32(w, i, i->src[0]));
    return (int)w->stop;
}

HEAD(S_CMOV_B64)
{
    if (w->scc) sp_put_s64(w, i, i->dst, sp_s64(w, i, i->src[0]));
    return (int)w->stop;
}

#define BITSET(X)                                                                                                     \
    X(S_BITSET0_B32, 32, d & ~(UINT64_C(1) << (a & 31)))                                                              \
    X(S_BITSET1_B32, 32, d | UINT64_C(1) << (a & 31))                                                                 \
    X(S_BITSET0_B64, 64, d & ~(UINT64_C(1) << (a & 63)))                                                              \
    X(S_BITSET1_B64, 64, d | UINT64_C(1) << (a & 63))
#define DEFINE_BITSET(NAME, BITS, EXPR)                                                                               \
    HEAD(NAME)                                                                                                        \
    {                                                                                                                 \
        uint32_t a = sp_s32(w, i, i->src[0]);                                                                         \
        uint64_t d = (BITS) == 64 ? sp_s64(w, i, i->dst) : sp_s32(w, i, i->dst);                                      \
        if ((BITS) == 64)                                                                                             \
            sp_put_s64(w, i, i->dst, EXPR);                                                                           \
        else                                                                                                          \
            sp_put_s32(w, i, i->dst, (uint32_t)(EXPR));                                                               \
        return (int)w->stop;                                                                                          \
    }
BITSET(DEFINE_BITSET)

/* --- EXEC --- e: as it was, a: the source */
#define SAVEEXEC(X)                                                                                                   \
    X(S_AND_SAVEEXEC, a &e)                                                                                           \
    X(S_OR_SAVEEXEC, a | e)                                                                                           \
    X(S_XOR_SAVEEXEC, a ^ e)                                                                                          \
    X(S_NAND_SAVEEXEC, ~(a & e))                                                                                      \
    X(S_NOR_SAVEEXEC, ~(a | e))                                                                                       \
    X(S_XNOR_SAVEEXEC, ~(a ^ e))                                                                                      \
    X(S_AND_NOT0_SAVEEXEC, ~a &e)                                                                                     \
    X(S_OR_NOT0_SAVEEXEC, ~a | e)                                                                                     \
    X(S_AND_NOT1_SAVEEXEC, a & ~e)                                                                                    \
    X(S_OR_NOT1_SAVEEXEC, a | ~e)
#define DEFINE_SAVEEXEC(NAME, EXPR)                                                                                   \
    HEAD(NAME##_B32)                                                                                                  \
    {                                                                                                                 \
        uint32_t a = sp_s32(w, i, i->src[0]), e = w->s[SP_EXEC], r = EXPR;                                            \
        sp_put_s32(w, i, i->dst, e);                                                                                  \
        sp_put_s32(w, i, SP_EXEC, r);                                                                                 \
        w->scc = r != 0;                                                                                              \
        return (int)w->stop;                                                                                          \
    }                                                                                                                 \
    HEAD(NAME##_B64)                                                                                                  \
    {                                                                                                                 \
        uint64_t a = sp_s64(w, i, i->src[0]), e = w->s[SP_EXEC] | (uint64_t)w->s[SP_EXEC + 1] << 32, r = EXPR;        \
        sp_put_s64(w, i, i->dst, e);                                                                                  \
        sp_put_s64(w, i, SP_EXEC, r);                                                                                 \
        w->scc = r != 0;                                                                                              \
        return (int)w->stop;                                                                                          \
    }
#define WREXEC(X)                                                                                                     \
    X(S_AND_NOT0_WREXEC, ~a &e)                                                                                       \
    X(S_AND_NOT1_WREXEC, a & ~e)
#define DEFINE_WREXEC(NAME, EXPR)                                                                                     \
    HEAD(NAME##_B32)                                                                                                  \
    {                                                                                                                 \
        uint32_t a = sp_s32(w, i, i->src[0]), e = w->s[SP_EXEC], r = EXPR;                                            \
        sp_put_s32(w, i, SP_EXEC, r);                                                                                 \
        sp_put_s32(w, i, i->dst, r);                                                                                  \
        w->scc = r != 0;                                                                                              \
        return (int)w->stop;                                                                                          \
    }                                                                                                                 \
    HEAD(NAME##_B64)                                                                                                  \
    {                                                                                                                 \
        uint64_t a = sp_s64(w, i, i->src[0]), e = w->s[SP_EXEC] | (uint64_t)w->s[SP_EXEC + 1] << 32, r = EXPR;        \
        sp_put_s64(w, i, SP_EXEC, r);                                                                                 \
        sp_put_s64(w, i, i->dst, r);                                                                                  \
        w->scc = r != 0;                                                                                              \
        return (int)w->stop;                                                                                          \
    }
SAVEEXEC(DEFINE_SAVEEXEC)
WREXEC(DEFINE_WREXEC)
#define ENTRY_BOTH(NAME, EXPR) SP_OP_ENTRY(NAME##_B32) SP_OP_ENTRY(NAME##_B64)

/* --- compares --- */
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

/* --- SOPK: k is SIMM16, d the destination as it was --- */
#define SOPK_CMP(X)                                                                                                   \
    X(S_CMPK_EQ_I32, (int32_t)d == k)                                                                                 \
    X(S_CMPK_LG_I32, (int32_t)d != k)                                                                                 \
    X(S_CMPK_GT_I32, (int32_t)d > k)                                                                                  \
    X(S_CMPK_GE_I32, (int32_t)d >= k)                                                                                 \
    X(S_CMPK_LT_I32, (int32_t)d < k)                                                                                  \
    X(S_CMPK_LE_I32, (int32_t)d <= k)                                                                                 \
    X(S_CMPK_EQ_U32, d == (uint16_t)k)                                                                                \
    X(S_CMPK_LG_U32, d != (uint16_t)k)                                                                                \
    X(S_CMPK_GT_U32, d > (uint16_t)k)                                                                                 \
    X(S_CMPK_GE_U32, d >= (uint16_t)k)                                                                                \
    X(S_CMPK_LT_U32, d < (uint16_t)k)                                                                                 \
    X(S_CMPK_LE_U32, d <= (uint16_t)k)
#define DEFINE_SOPK_CMP(NAME, EXPR)                                                                                   \
    HEAD(NAME)                                                                                                        \
    {                                                                                                                 \
        uint32_t d = sp_s32(w, i, i->dst);                                                                            \
        int32_t k = (int16_t)i->offset;                                                                               \
        w->scc = EXPR;                                                                                                \
        return (int)w->stop;                                                                                          \
    }
SOPK_CMP(DEFINE_SOPK_CMP)

HEAD(S_MOVK_I32)
{
    RESULT32((uint32_t)(int16_t)i->offset, w->scc)
}

HEAD(S_CMOVK_I32)
{
    if (w->scc) sp_put_s32(w, i, i->dst, (uint32_t)(int16_t)i->offset);
    return (int)w->stop;
}

HEAD(S_ADDK_I32)
{
    uint32_t d = sp_s32(w, i, i->dst), k = (uint32_t)(int32_t)(int16_t)i->offset;
    RESULT32(d + k, add_overflows(d, k, r))
}

HEAD(S_MULK_I32)
{
    uint32_t d = sp_s32(w, i, i->dst), k = (uint32_t)(int32_t)(int16_t)i->offset, r = d * k;
    sp_put_s32(w, i, i->dst, r);
    return (int)w->stop;
}

/* --- indirect registers: M0 is added to the number --- */
static uint32_t relative(struct sp_wave *w, const struct sp_inst *i, uint32_t code, uint32_t most)
{
    uint32_t at = code + sp_s32(w, i, SP_SRC_M0);
    if (at > most || code > most) sp_operand_bad(w, i, at);
    return w->stop ? 0 : at;
}

HEAD(S_MOVRELS_B32) { RESULT32(sp_s32(w, i, relative(w, i, i->src[0], 105)), w->scc) }
HEAD(S_MOVRELS_B64) { RESULT64(sp_s64(w, i, relative(w, i, i->src[0], 104)), w->scc) }

HEAD(S_MOVRELD_B32)
{
    sp_put_s32(w, i, relative(w, i, i->dst, 105), sp_s32(w, i, i->src[0]));
    return (int)w->stop;
}

HEAD(S_MOVRELD_B64)
{
    sp_put_s64(w, i, relative(w, i, i->dst, 104), sp_s64(w, i, i->src[0]));
    return (int)w->stop;
}

/* --- the program counter --- */
HEAD(S_GETPC_B64) { RESULT64(w->next, w->scc) }

HEAD(S_SETPC_B64)
{
    w->next = sp_s64(w, i, i->src[0]);
    return (int)w->stop;
}

HEAD(S_SWAPPC_B64)
{
    uint64_t to = sp_s64(w, i, i->src[0]);
    sp_put_s64(w, i, i->dst, w->next);
    w->next = to;
    return (int)w->stop;
}

HEAD(S_CALL_B64)
{
    sp_put_s64(w, i, i->dst, w->next);
    w->next += (uint64_t)((int64_t)(int16_t)i->offset * 4);
    return (int)w->stop;
}

#define E SP_OP_ENTRY
const struct sp_wave_op sp_wave_salu[] = {
    SOP2_32(E) SOP2_64(E) SOP2_SHIFT64(E) SOP1_32(E) SOP1_64(E) SOP1_64_TO_32(E) BITSET(E) SAVEEXEC(ENTRY_BOTH)
    WREXEC(ENTRY_BOTH) SOPC_32(E) SOPC_64(E) SOPK_CMP(E) E(S_MOV_B32) E(S_MOV_B64) E(S_BFM_B64) E(S_BITREPLICATE_B64_B32) E(S_CMOV_B32)
    E(S_CMOV_B64) E(S_MOVK_I32) E(S_CMOVK_I32) E(S_ADDK_I32) E(S_MULK_I32) E(S_MOVRELS_B32) E(S_MOVRELS_B64)
    E(S_MOVRELD_B32) E(S_MOVRELD_B64) E(S_GETPC_B64) E(S_SETPC_B64) E(S_SWAPPC_B64) E(S_CALL_B64) SP_OP_END};
