/* Scalar ALU with one source or a constant: SOP1, SOPK, and the instructions that change the
 * program counter. One function per instruction, named as in RDNA3's ISA document. */
#include "families.h"
#include "salu.h"

/* --- instructions with one source --- */
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

/* Returns one bit, or four bits if `whole`, for each group of four bits that is not 0. */
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
    X(S_BCNT0_I32_B32, 32u - (uint32_t)__builtin_popcount(a), r)                                                                 \
    X(S_BCNT1_I32_B32, __builtin_popcount(a), r)                                                                      \
    X(S_ABS_I32, (int32_t)a < 0 ? 0u - a : a, r)
#define DEFINE_SOP1_32(NAME, EXPR, SCC)                                                                               \
    HEAD(NAME)                                                                                                        \
    {                                                                                                                 \
        uint32_t a = sp_s32(w, i, i->src[0]);                                                                         \
        RESULT32(EXPR, SCC)                                                                                           \
    }
SOP1_32(DEFINE_SOP1_32)

#define SOP1_32_KEEP(X)                                                                                               \
    X(S_BREV_B32, sp_s32, reverse(a, 32))                                                                             \
    X(S_CTZ_I32_B32, sp_s32, ctz32(a))                                                                                \
    X(S_FF0_I32_B32, sp_s32, ctz32(~a))                                                                               \
    X(S_CLZ_I32_U32, sp_s32, clz32(a))                                                                                \
    X(S_CLS_I32, sp_s32, cls32(a))                                                                                    \
    X(S_SEXT_I32_I8, sp_s32, (int8_t)a)                                                                               \
    X(S_SEXT_I32_I16, sp_s32, (int16_t)a)                                                                             \
    X(S_CTZ_I32_B64, sp_s64, ctz64(b))                                                                                \
    X(S_FF0_I32_B64, sp_s64, ctz64(~b))                                                                               \
    X(S_CLZ_I32_U64, sp_s64, clz64(b))                                                                                \
    X(S_CLS_I32_I64, sp_s64, cls64(b))
#define DEFINE_SOP1_32_KEEP(NAME, SOURCE, EXPR)                                                                       \
    HEAD(NAME)                                                                                                        \
    {                                                                                                                 \
        uint64_t b = SOURCE(w, i, i->src[0]);                                                                         \
        uint32_t a = (uint32_t)b;                                                                                     \
        (void)a;                                                                                                      \
        RESULT32_KEEP(EXPR)                                                                                           \
    }
SOP1_32_KEEP(DEFINE_SOP1_32_KEEP)

#define SOP1_64(X)                                                                                                    \
    X(S_NOT_B64, ~a, r)                                                                                               \
    X(S_WQM_B64, quads(a, true), r)                                                                                   \
    X(S_QUADMASK_B64, quads(a, false), r)
#define DEFINE_SOP1_64(NAME, EXPR, SCC)                                                                               \
    HEAD(NAME)                                                                                                        \
    {                                                                                                                 \
        uint64_t a = sp_s64(w, i, i->src[0]);                                                                         \
        RESULT64(EXPR, SCC)                                                                                           \
    }
SOP1_64(DEFINE_SOP1_64)

#define SOP1_64_TO_32(X)                                                                                              \
    X(S_BCNT0_I32_B64, 64 - __builtin_popcountll(a), r)                                                               \
    X(S_BCNT1_I32_B64, __builtin_popcountll(a), r)
#define DEFINE_SOP1_64_TO_32(NAME, EXPR, SCC)                                                                         \
    HEAD(NAME)                                                                                                        \
    {                                                                                                                 \
        uint64_t a = sp_s64(w, i, i->src[0]);                                                                         \
        RESULT32(EXPR, SCC)                                                                                           \
    }
SOP1_64_TO_32(DEFINE_SOP1_64_TO_32)

HEAD(S_MOV_B32) { RESULT32_KEEP(sp_s32(w, i, i->src[0])) }
HEAD(S_MOV_B64) { RESULT64_KEEP(sp_s64(w, i, i->src[0])) }
HEAD(S_BREV_B64)
{
    RESULT64_KEEP(reverse(sp_s64(w, i, i->src[0]), 64))
}
HEAD(S_CMOV_B32) { return sp_scc(w, i) ? S_MOV_B32(w, i) : 0; }
HEAD(S_CMOV_B64) { return sp_scc(w, i) ? S_MOV_B64(w, i) : 0; }

HEAD(S_BITREPLICATE_B64_B32)
{
    RESULT64_KEEP(replicate(sp_s32(w, i, i->src[0])))
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

/* --- save and change EXEC: e is the old value of EXEC, a the source --- */
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

/* --- SOPK: k is SIMM16, d the old destination --- */
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
    RESULT32_KEEP((int16_t)i->offset)
}

HEAD(S_CMOVK_I32)
{
    if (sp_scc(w, i)) sp_put_s32(w, i, i->dst, (uint32_t)(int16_t)i->offset);
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

/* --- instructions that add an offset in M0 to the number of a register operand --- */
static uint32_t relative_by(struct sp_wave *w, const struct sp_inst *i, uint32_t code, uint32_t offset, uint32_t most)
{
    uint32_t at = code + offset;
    if (at > most || code > most) sp_operand_bad(w, i, at);
    return w->stop ? 0 : at;
}

static uint32_t relative(struct sp_wave *w, const struct sp_inst *i, uint32_t code, uint32_t most)
{
    return relative_by(w, i, code, sp_s32(w, i, SP_SRC_M0), most);
}

HEAD(S_MOVRELS_B32) { RESULT32_KEEP(sp_s32(w, i, relative(w, i, i->src[0], 105))) }
HEAD(S_MOVRELS_B64) { RESULT64_KEEP(sp_s64(w, i, relative(w, i, i->src[0], 104))) }

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

/* M0 has two offsets: one for the source, one for the destination. */
HEAD(S_MOVRELSD_2_B32)
{
    uint32_t m0 = sp_s32(w, i, SP_SRC_M0), from = relative_by(w, i, i->src[0], m0 & 0x3FF, 105);
    sp_put_s32(w, i, relative_by(w, i, i->dst, m0 >> 16 & 0x3FF, 105), sp_s32(w, i, from));
    return (int)w->stop;
}

/* --- instructions that read or change the program counter --- */
HEAD(S_GETPC_B64) { RESULT64_KEEP(w->next) }

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
const struct sp_wave_op sp_wave_sop1[] = {
    SOP1_32(E) SOP1_32_KEEP(E) SOP1_64(E) E(S_BREV_B64) SOP1_64_TO_32(E) BITSET(E) SAVEEXEC(ENTRY_BOTH)
    WREXEC(ENTRY_BOTH) SOPK_CMP(E) E(S_MOV_B32)
    E(S_MOV_B64) E(S_BITREPLICATE_B64_B32) E(S_CMOV_B32) E(S_CMOV_B64) E(S_MOVK_I32) E(S_CMOVK_I32) E(S_ADDK_I32)
    E(S_MULK_I32) E(S_MOVRELS_B32) E(S_MOVRELS_B64) E(S_MOVRELD_B32) E(S_MOVRELD_B64) E(S_MOVRELSD_2_B32) E(S_GETPC_B64) E(S_SETPC_B64)
    E(S_SWAPPC_B64) E(S_CALL_B64) SP_OP_END};
