/* Dot products of two halves, and the matrix instructions (WMMA), which are chains of them.
 *
 * RDNA3 does not compute a dot product as an IEEE sum. It truncates the three terms to a common
 * grid and adds them as integers. The sum is rounded once, to the nearest even number. MODE has no
 * effect. The grid, the lost bits and the bits of NaNs were measured on gfx1100 and gfx1151 (ROCm
 * rocm-systems issue 12056; gfx11_dot2.h of its rocjitsu). WMMA adds two products per step by the
 * same rule, and rounds a packed result after each step (ibid.). Layouts: "RDNA3 ISA" 7.9. It is
 * not published whether CLAMP of the integer forms saturates once, or after each DOT4 or DOT8, as
 * here. */
#include "emu/ops/families.h"
#include "emu/ops/lanes_math.h"
#include "emu/ops/half.h"

#define HEAD(NAME) static int NAME(struct sp_wave *w, const struct sp_inst *i)

/* number of lanes that hold one copy of A and B; also rows, columns and depth of a matrix */
enum { GROUP = 16 };
enum kind { F16, BF16 };
enum { NAN_FACTOR = 0xFFC00A3D, NAN_INVALID = 0xFFC00000, INF = 0x7F800000, NOTHING = -1024 };

/* A 16-bit number as digits and exponent. The first digit is before the binary point. A denormal
 * bfloat16 is 0 here. */
struct factor {
    uint32_t digits;
    int exponent;
    bool minus, is_nan, is_inf;
};

static struct factor factor(enum kind kind, uint32_t bits)
{
    uint32_t after = kind == BF16 ? 7 : 10, magnitude = bits & 0x7FFF, inf = kind == BF16 ? 0x7F80 : 0x7C00;
    uint32_t field = magnitude >> after, fraction = magnitude & ((1u << after) - 1);
    return (struct factor){.digits = field ? fraction | 1u << after : kind == BF16 ? 0 : fraction,
                           .exponent = (int)(field ? field : 1) - (kind == BF16 ? 127 : 15),
                           .minus = bits >> 15 & 1, .is_nan = magnitude > inf, .is_inf = magnitude == inf};
}

struct term {
    uint64_t digits;
    int unit; /* the term is digits * 2^unit */
    bool minus;
};

static int top_of(struct term t) { return t.digits ? t.unit + 63 - __builtin_clzll(t.digits) : NOTHING; }
static int max_of(int a, int b) { return a > b ? a : b; }

/* Drops the last `drop` bits; rounds to the nearest, ties to even. */
static uint64_t round_off(uint64_t value, int drop)
{
    if (drop <= 0) return value << -drop;
    if (drop > 63) return 0;
    uint64_t kept = value >> drop, rest = value - (kept << drop), half = UINT64_C(1) << (drop - 1);
    return kept + (rest > half || (rest == half && (kept & 1)));
}

/* Returns |sum| * 2^unit as a float. The number is rounded first; if the result is below the least
 * normal number, it becomes +0. */
static uint32_t to_float(uint64_t sum, int unit, bool minus)
{
    int top = 63 - __builtin_clzll(sum), exponent = top + unit;
    uint64_t digits = round_off(sum, top - 23);
    exponent += digits >> 24 != 0;
    digits = digits >> 24 ? 0 : digits & 0x7FFFFF;
    if (exponent < -126) return 0;
    return (uint32_t)minus << 31 | (exponent > 127 ? INF : (uint32_t)(exponent + 127) << 23 | (uint32_t)digits);
}

/* Returns |sum| * 2^unit as a half, denormals included. A result that rounds to 0 is +0. */
static uint32_t to_half(uint64_t sum, int unit, bool minus)
{
    int top = 63 - __builtin_clzll(sum), exponent = max_of(top + unit, -14);
    uint64_t digits = round_off(sum, exponent - 10 - unit);
    uint64_t bits = top + unit < -14 ? digits : digits + ((uint64_t)(exponent + 14) << 10);
    return !bits ? 0 : (uint32_t)minus << 15 | (bits >= 0x7C00 ? 0x7C00 : (uint32_t)bits);
}

/* Converts an infinity or a NaN, given as the bits of a float, to the format of the result: 16 bits
 * if `packed`, else a float. */
static uint32_t special(enum kind kind, bool packed, uint32_t bits)
{
    if (!packed) return bits;
    if (bits == NAN_FACTOR) return kind == BF16 ? 0xFFFD : 0xFE3D;
    return kind == BF16 ? bits >> 16 : (bits >> 16 & 0x8000) | 0x7C00 | (bits >> 13 & 0x3FF);
}

static bool invalid(struct factor a, struct factor b) { return (a.is_inf && !b.digits) || (b.is_inf && !a.digits); }

/* Returns the product of the low halves + the product of the high halves + `c`, a float. */
static uint32_t dot2(enum kind kind, bool packed, uint32_t a, uint32_t b, uint32_t c)
{
    struct factor fa[2] = {factor(kind, a & 0xFFFF), factor(kind, a >> 16)};
    struct factor fb[2] = {factor(kind, b & 0xFFFF), factor(kind, b >> 16)};
    struct term terms[3] = {{.digits = c << 1 >> 24 ? (c & 0x7FFFFF) | 0x800000 : 0, .unit = (int)(c << 1 >> 24) - 150,
                             .minus = c >> 31}};
    bool is_nan = false, wrong = false, inf[2] = {false, false};
    int grid = NOTHING, top = top_of(terms[0]);
    /* The terms are added as multiples of 2^grid. The largest exponent of a term, `top`, determines
     * `grid`. For a result in half precision, `top` is at least -14, the exponent of the least
     * normal half. */
    if (packed && kind == F16) top = max_of(top, -14);
    for (unsigned k = 0; k < 2; k++) {
        bool minus = fa[k].minus != fb[k].minus;
        int exponent = fa[k].exponent + fb[k].exponent;
        is_nan |= fa[k].is_nan || fb[k].is_nan;
        wrong |= invalid(fa[k], fb[k]);
        inf[minus] |= fa[k].is_inf || fb[k].is_inf;
        terms[1 + k] = (struct term){(uint64_t)fa[k].digits * fb[k].digits, exponent - (kind == BF16 ? 14 : 20), minus};
        if (terms[1 + k].digits) grid = max_of(grid, exponent - 24);
        top = max_of(top, top_of(terms[1 + k]));
    }
    if (is_nan) return special(kind, packed, NAN_FACTOR);
    if (wrong || (inf[0] && inf[1])) return special(kind, packed, NAN_INVALID);
    if ((c & INT32_MAX) > INF) return special(kind, packed, c | 0x400000);
    if ((c & INT32_MAX) == INF) inf[c >> 31] = true;
    if (inf[0] || inf[1]) return special(kind, packed, inf[0] && inf[1] ? NAN_INVALID : inf[1] ? 1u << 31 | INF : INF);
    if (!(terms[0].digits | terms[1].digits | terms[2].digits)) return 0;
    grid = max_of(grid, top - 26);
    /* `sum` is the sum of the three terms in units of 2^grid, negated if `c` (terms[0]) is
     * negative. So a term with the sign of `c` is added as it is. A term with the other sign is
     * added as its one's complement. */
    int64_t sum = 0;
    for (unsigned k = 0; k < 3; k++) {
        int shift = terms[k].unit - grid;
        uint64_t cut = !terms[k].digits || shift < -63 ? 0 : shift < 0 ? terms[k].digits >> -shift : terms[k].digits << shift;
        sum += terms[k].minus == terms[0].minus ? (int64_t)cut : ~(int64_t)cut;
    }
    if (!sum) return 0;
    bool minus = (sum < 0) != terms[0].minus;
    uint64_t size = sum < 0 ? 0 - (uint64_t)sum : (uint64_t)sum;
    if (packed && kind == F16) return to_half(size, grid, minus);
    return to_float(size, grid, minus) >> (packed ? 16 : 0);
}

/* Returns the dot product of RDNA2, of which no measurement is known. Rounds the sum of the exact
 * products once; MODE decides about denormals. */
static uint32_t dot2_rdna2(const struct sp_wave *w, uint32_t a, uint32_t b, uint32_t c)
{
    double sum = sp_flush32_in(w) ? (double)sp_flush32(sp_f32(c)) : (double)sp_f32(c), part = 0;
    for (unsigned k = 0; k < 32; k += 16) {
        uint32_t x = a >> k & 0xFFFF, y = b >> k & 0xFFFF, tiny = w->mode & SP_MODE_KEEP64_IN ? 0 : 0x400;
        x = (x & 0x7FFF) < tiny ? x & 0x8000 : x;
        y = (y & 0x7FFF) < tiny ? y & 0x8000 : y;
        part += (double)sp_half_to_float(x) * (double)sp_half_to_float(y);
    }
    return sp_u32((float)(part + sum));
}

/* --- operands of dot products and matrices --- */

static uint32_t widen(enum kind kind, uint32_t bits)
{
    return kind == BF16 ? bits << 16 : sp_u32(sp_half_to_float(bits));
}

/* Returns an inline constant of 16 bits. A float constant such as 2.0 in bfloat16 is the upper half
 * of the 32-bit float. */
static uint32_t constant(struct sp_wave *w, const struct sp_inst *i, uint32_t code, enum kind kind)
{
    bool is_float = code >= 240 && code <= 248;
    uint32_t bits = (uint32_t)sp_operand_special(w, i, code, kind == F16 ? SP_B16 : SP_B32);
    return kind == BF16 && is_float ? bits >> 16 : bits;
}

/* Stores both halves of src[k] in `to`, as the instruction selects and negates them. Without VOP3P
 * each half stays in its place, and modifiers apply to both. */
static void pairs(struct sp_wave *w, const struct sp_inst *i, unsigned k, enum kind kind, uint32_t *to)
{
    uint32_t t[SP_LANES], code = i->src[k], low = 0, high = 16, flip = 0, keep = UINT32_MAX;
    const uint32_t *from = t;
    if (code >= 240 && code <= 248)
        sp_fill(w, t, constant(w, i, code, kind));
    else
        from = sp_src(w, i, k, t);
    if (i->format == SP_FORMAT_VOP3P) {
        low = (i->op_sel >> k & 1) * 16u;
        high = (i->op_sel_hi >> k & 1) * 16u;
        flip = (i->neg >> k & 1u) << 15 | (i->neg_hi >> k & 1u) << 31;
    } else {
        flip = i->neg >> k & 1 ? 0x80008000 : 0;
        keep = i->abs >> k & 1 ? 0x7FFF7FFF : UINT32_MAX;
    }
    for (uint32_t l = 0; l < w->lanes; l++) to[l] = (((from[l] >> low & 0xFFFF) | from[l] >> high << 16) & keep) ^ flip;
}

static int dot2_f32(struct sp_wave *w, const struct sp_inst *i, enum kind kind, uint32_t third)
{
    uint32_t a[SP_LANES], b[SP_LANES], t[SP_LANES], r[SP_LANES], flip = (i->neg >> 2 & 1u) << 31;
    struct sp_inst c = *i;
    c.src[2] = (uint16_t)third;
    c.lane_mode = SP_LANE_PLAIN;
    pairs(w, i, 0, kind, a);
    pairs(w, i, 1, kind, b);
    const uint32_t *pc = sp_src(w, &c, 2, t);
    for (uint32_t l = 0; l < w->lanes; l++)
        r[l] = w->generation == 10 ? dot2_rdna2(w, a[l], b[l], pc[l] ^ flip) : dot2(kind, false, a[l], b[l], pc[l] ^ flip);
    return sp_putf(w, i, (float *)r);
}
HEAD(V_DOT2_F32_F16) { return dot2_f32(w, i, F16, i->src[2]); }
HEAD(V_DOT2_F32_BF16) { return dot2_f32(w, i, BF16, i->src[2]); }
HEAD(V_DOT2ACC_F32_F16) { return dot2_f32(w, i, F16, i->dst); }

static int dot2_16(struct sp_wave *w, const struct sp_inst *i, enum kind kind)
{
    uint32_t a[SP_LANES], b[SP_LANES], t[SP_LANES], r[SP_LANES], code = i->src[2];
    uint32_t keep = i->abs & 4 ? 0x7FFF : 0xFFFF, flip = i->neg & 4 ? 0x8000 : 0;
    const uint32_t *pc = t;
    pairs(w, i, 0, kind, a);
    pairs(w, i, 1, kind, b);
    if (code >= 240 && code <= 248)
        sp_fill(w, t, constant(w, i, code, kind));
    else
        pc = sp_src16(w, i, 2, t);
    for (uint32_t l = 0; l < w->lanes; l++) r[l] = dot2(kind, true, a[l], b[l], widen(kind, (pc[l] & keep) ^ flip));
    return sp_put16(w, i, r);
}
HEAD(V_DOT2_F16_F16) { return dot2_16(w, i, F16); }
HEAD(V_DOT2_BF16_BF16) { return dot2_16(w, i, BF16); }

/* --- matrices: D = A * B + C, whatever EXEC is --- */

/* Registers of A, B and C. A and B exist in `copies` groups of 16 lanes. Lane n has row n of A and
 * column n of B, first elements in the low bits. Row m of C and D is in group m % copies, register
 * m / copies; each lane has one column. */
struct tile {
    uint32_t copies;
    const uint32_t *a[8], *b[8], *c[8];
    uint32_t constant[SP_LANES];
};

static bool overlaps(uint32_t first, uint32_t count, uint32_t other, uint32_t other_count)
{
    return first < other + other_count && other < first + count;
}

/* Returns true if the VGPR is undefined in lane l or in the lane of lanes 0 to 15 that it repeats. */
static bool copy_is_undefined(const struct sp_wave *w, uint32_t reg, uint32_t l)
{
    return ~w->vgpr_ready[reg & 255] >> l & 1 || ~w->vgpr_ready[reg & 255] >> l % GROUP & 1;
}

/* Sets to[n] to the values of VGPR n of operand k in all lanes, for n < count. If `copied`, lanes
 * from 16 on must repeat the values of lanes 0 to 15 ("RDNA3 ISA" 7.9): otherwise a strict card
 * faults. */
static int columns(struct sp_wave *w, const struct sp_inst *i, unsigned k, uint32_t count, bool copied, const uint32_t **to)
{
    for (uint32_t n = 0; n < count; n++) {
        to[n] = sp_vgpr(w, i, i->src[k] < SP_SRC_VGPR ? i->src[k] : SP_SRC_VGPR + ((i->src[k] + n) & 255));
        for (uint32_t l = GROUP; copied && w->strict && !w->stop && l < w->lanes; l++)
            if (to[n][l] != to[n][l % GROUP] && !copy_is_undefined(w, i->src[k] + n, l))
                return sp_wave_fault(w, SP_FAULT_OPERAND, "%s: v%u of lane %u differs from its copy in lane %u", sp_wave_op_name(i->op),
                                     (i->src[k] + n) & 255, l, l % GROUP);
    }
    return (int)w->stop;
}

static int gather(struct sp_wave *w, const struct sp_inst *i, uint32_t dwords, enum kind kind, bool packed, struct tile *t)
{
    t->copies = w->lanes / GROUP;
    uint32_t rows = GROUP / t->copies;
    /* A WMMA must not read the result of the preceding WMMA as A or B, unless another instruction
     * stands between them ("RDNA3 ISA" 7.9.1). */
    if (w->strict && w->wmma_end == w->pc && (overlaps(w->wmma_dst, rows, i->src[0], dwords) || overlaps(w->wmma_dst, rows, i->src[1], dwords)))
        return sp_wave_fault(w, SP_FAULT_OPERAND, "%s reads the result of the WMMA before it: a V_NOP must stand between",
                             sp_wave_op_name(i->op));
    w->wmma_end = w->next;
    w->wmma_dst = i->dst;
    if (columns(w, i, 0, dwords, true, t->a) || columns(w, i, 1, dwords, true, t->b)) return SP_WAVE_FAULT;
    if (i->src[2] >= SP_SRC_VGPR) return columns(w, i, 2, rows, false, t->c);
    if (i->src[2] < 128) return sp_operand_bad(w, i, i->src[2]);
    uint32_t value = packed ? constant(w, i, i->src[2], kind) * 0x10001u : (uint32_t)sp_operand_special(w, i, i->src[2], SP_B32);
    sp_fill(w, t->constant, value);
    for (uint32_t n = 0; n < rows; n++) t->c[n] = t->constant;
    return (int)w->stop;
}

static int put_tile(struct sp_wave *w, const struct sp_inst *i, uint32_t (*d)[SP_LANES], uint32_t rows)
{
    for (uint32_t n = 0; n < rows && !w->stop; n++)
        sp_put_lanes(w, i, SP_SRC_VGPR + ((i->dst + n) & 255), d[n], w->full);
    return (int)w->stop;
}

static int wmma_float(struct sp_wave *w, const struct sp_inst *i, enum kind kind, bool packed)
{
    struct tile t;
    uint32_t d[8][SP_LANES], shift = packed && i->op_sel & 4 ? 16 : 0, mask = packed ? 0xFFFF : UINT32_MAX;
    uint32_t flip_a = (i->neg & 1u) << 15 | (i->neg_hi & 1u) << 31, flip_b = (i->neg >> 1 & 1u) << 15 | (i->neg_hi >> 1 & 1u) << 31;
    uint32_t sign = packed ? 0x8000 : 1u << 31;
    if (gather(w, i, 8, kind, packed, &t)) return SP_WAVE_FAULT;
    for (uint32_t m = 0; m < GROUP; m++)
        for (uint32_t n = 0; n < GROUP; n++) {
            uint32_t group = m % t.copies * GROUP, row = m / t.copies, c = t.c[row][group + n] >> shift & mask;
            c = (c & (i->neg_hi & 4 ? ~sign : UINT32_MAX)) ^ (i->neg & 4 ? sign : 0);
            for (uint32_t k = 0; k < 8; k++)
                c = dot2(kind, packed, t.a[k][group + m] ^ flip_a, t.b[k][group + n] ^ flip_b, packed ? widen(kind, c) : c);
            uint32_t old = w->v[(i->dst + row) & 255][group + n];
            d[row][group + n] = (old & ~(mask << shift)) | c << shift;
        }
    return put_tile(w, i, d, GROUP / t.copies);
}

/* Executes an integer WMMA with elements of `bits`. NEG says which of A and B is signed. */
static int wmma_int(struct sp_wave *w, const struct sp_inst *i, uint32_t bits)
{
    struct tile t;
    uint32_t d[8][SP_LANES], dwords = bits / 2;
    if (gather(w, i, dwords, F16, false, &t)) return SP_WAVE_FAULT;
    for (uint32_t m = 0; m < GROUP; m++)
        for (uint32_t n = 0; n < GROUP; n++) {
            uint32_t group = m % t.copies * GROUP, row = m / t.copies, c = t.c[row][group + n];
            for (uint32_t k = 0; k < dwords; k++)
                c = sp_dot_sum(sp_dot(t.a[k][group + m], t.b[k][group + n], bits, i->neg & 1, i->neg & 2), c, true, i->clamp);
            d[row][group + n] = c;
        }
    return put_tile(w, i, d, GROUP / t.copies);
}

/* X(name, call). All lanes take part, whatever EXEC is ("RDNA3 ISA" 7.9). */
#define WMMA(X)                                                                                                       \
    X(V_WMMA_F32_16X16X16_F16, wmma_float(w, i, F16, false))                                                          \
    X(V_WMMA_F32_16X16X16_BF16, wmma_float(w, i, BF16, false))                                                        \
    X(V_WMMA_F16_16X16X16_F16, wmma_float(w, i, F16, true))                                                           \
    X(V_WMMA_BF16_16X16X16_BF16, wmma_float(w, i, BF16, true))                                                        \
    X(V_WMMA_I32_16X16X16_IU8, wmma_int(w, i, 8))                                                                     \
    X(V_WMMA_I32_16X16X16_IU4, wmma_int(w, i, 4))
#define DEFINE_WMMA(NAME, CALL)                                                                                       \
    HEAD(NAME)                                                                                                        \
    {                                                                                                                 \
        uint64_t exec = w->exec;                                                                                      \
        w->exec = w->full;                                                                                            \
        int rc = CALL;                                                                                                \
        w->exec = exec;                                                                                               \
        return rc;                                                                                                    \
    }
WMMA(DEFINE_WMMA)

#define E SP_OP_ENTRY
const struct sp_wave_op sp_wave_matrix[] = {E(V_DOT2_F32_F16) E(V_DOT2_F32_BF16) E(V_DOT2ACC_F32_F16) E(V_DOT2_F16_F16)
                                                E(V_DOT2_BF16_BF16) WMMA(E) SP_OP_END};
