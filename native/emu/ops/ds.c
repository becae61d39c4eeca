/* LDS: loads, stores, atomics. Returns in order (lgkmcnt). */
#include "families.h"
#include "memory.h"

#define HEAD(NAME) static int NAME(struct sp_wave *w, const struct sp_inst *i)

/* --- the group's memory --- */
static int out_of_range(struct sp_wave *w, const struct sp_inst *i, uint32_t lane, uint32_t at, uint32_t nbytes)
{
    sp_wave_fault(w, SP_FAULT_LDS, "%s: %u bytes at LDS 0x%x, the group has %u", sp_wave_op_name(i->op), nbytes, at,
                  w->group->lds_bytes);
    return sp_wave_fault_at(w, lane);
}

static int never_written(struct sp_wave *w, const struct sp_inst *i, uint32_t lane, uint32_t at)
{
    sp_wave_fault(w, SP_FAULT_UNINITIALISED, "%s reads LDS 0x%x, which was never written", sp_wave_op_name(i->op), at);
    return sp_wave_fault_at(w, lane);
}

SP_INLINE int lds_read(struct sp_wave *w, const struct sp_inst *i, uint32_t lane, uint32_t at, void *to, uint32_t nbytes)
{
    const struct sp_group *g = w->group;
    if (SP_UNLIKELY((uint64_t)at + nbytes > g->lds_bytes)) return out_of_range(w, i, lane, at, nbytes);
    if (w->strict)
        for (uint32_t d = at / 4; d <= (at + nbytes - 1) / 4; d++)
            if (SP_UNLIKELY(!g->lds_written[d])) w->poison_seen = 1 + d;
    memcpy(to, g->lds + at, nbytes);
    return 0;
}

/* As lds_read, for atomics, which decide. */
static int lds_use(struct sp_wave *w, const struct sp_inst *i, uint32_t lane, uint32_t at, void *to, uint32_t nbytes)
{
    int rc = lds_read(w, i, lane, at, to, nbytes);
    return !rc && SP_UNLIKELY(w->poison_seen) ? never_written(w, i, lane, (w->poison_seen - 1) * 4) : rc;
}

SP_INLINE int lds_write(struct sp_wave *w, const struct sp_inst *i, uint32_t lane, uint32_t at, const void *from,
                        uint32_t nbytes)
{
    const struct sp_group *g = w->group;
    if (SP_UNLIKELY((uint64_t)at + nbytes > g->lds_bytes)) return out_of_range(w, i, lane, at, nbytes);
    for (uint32_t d = at / 4; d <= (at + nbytes - 1) / 4; d++) g->lds_written[d] = 1;
    memcpy(g->lds + at, from, nbytes);
    return 0;
}

int sp_lds_read(struct sp_wave *w, const struct sp_inst *i, uint32_t lane, uint32_t at, void *to, uint32_t nbytes)
{
    return lds_read(w, i, lane, at, to, nbytes);
}

int sp_lds_use(struct sp_wave *w, const struct sp_inst *i, uint32_t lane, uint32_t at, void *to, uint32_t nbytes)
{
    return lds_use(w, i, lane, at, to, nbytes);
}

int sp_lds_write(struct sp_wave *w, const struct sp_inst *i, uint32_t lane, uint32_t at, const void *from, uint32_t nbytes)
{
    return lds_write(w, i, lane, at, from, nbytes);
}

static bool is_gds(struct sp_wave *w, const struct sp_inst *i)
{
    if (i->gds) sp_wave_fault(w, SP_FAULT_OPERAND, "%s: GDS is not modelled", sp_wave_op_name(i->op));
    return i->gds;
}

static void loaded(struct sp_wave *w, const struct sp_inst *i, uint32_t (*r)[SP_LANES], uint32_t dwords)
{
    for (uint32_t k = 0; k < dwords; k++) sp_put_loaded(w, i->dst + k, r[k]);
    sp_wave_load_begins(w, SP_PEND_LDS, i->dst, dwords);
}

/* Where the lanes of an access with one address lie, for its second look. */
static struct sp_touched touched(const struct sp_wave *w, const uint32_t *at, uint32_t offset, uint32_t nbytes, uint64_t *va)
{
    SP_EACH_LANE(w, l) va[l] = at[l] + offset;
    return (struct sp_touched){SP_PLACE_LDS, nbytes, va, w->exec, 4, 0};
}

/* Ends a load that met dwords which nobody has written. */
static int poisoned(struct sp_wave *w, const struct sp_inst *i, const uint32_t *at, uint32_t offset, uint32_t nbytes,
                    uint32_t (*r)[SP_LANES])
{
    uint64_t va[SP_LANES];
    struct sp_touched t = touched(w, at, offset, nbytes, va);
    for (uint32_t k = 0; k < (nbytes + 3) / 4; k++) sp_put_loaded(w, i->dst + k, r[k]);
    return sp_poison_loaded(w, i, SP_PEND_LDS, i->dst, (nbytes + 3) / 4, &t);
}

static void stored_poison(struct sp_wave *w, const struct sp_inst *i, uint32_t src, const uint32_t *at, uint32_t offset,
                          uint32_t nbytes)
{
    uint64_t va[SP_LANES];
    struct sp_touched t = touched(w, at, offset, nbytes, va);
    sp_poison_stored(w, i, src, &t);
}

/* LGKM_CNT counts what returns nothing, too: a load before it is there when the count says so. */
static inline void stored(struct sp_wave *w) { w->lds_issued++; }

/* --- one address --- */
SP_INLINE int load(struct sp_wave *w, const struct sp_inst *i, uint32_t nbytes, enum sp_load kind)
{
    uint32_t r[4][SP_LANES], dwords = (nbytes + 3) / 4, offset = (uint32_t)i->offset & 0xFFFF;
    const uint32_t *at = sp_vgpr(w, i, i->src[0]);
    if (SP_UNLIKELY(w->stop || is_gds(w, i))) return (int)w->stop;
    for (uint64_t left = w->exec; left; left &= left - 1) {
        uint32_t l = (uint32_t)__builtin_ctzll(left), data[4] = {0};
        if (lds_read(w, i, l, at[l] + offset, data, nbytes)) return SP_WAVE_FAULT;
        for (uint32_t k = 0; k < dwords; k++) r[k][l] = sp_loaded(kind, data[k], w->v[i->dst & 255][l]);
    }
    if (SP_UNLIKELY(w->poison_seen)) return poisoned(w, i, at, offset, nbytes, r);
    loaded(w, i, r, dwords);
    return 0;
}

SP_INLINE int store(struct sp_wave *w, const struct sp_inst *i, uint32_t nbytes, uint32_t shift)
{
    uint32_t dwords = (nbytes + 3) / 4, offset = (uint32_t)i->offset & 0xFFFF;
    const uint32_t *at = sp_vgpr(w, i, i->src[0]), *from[4];
    for (uint32_t k = 0; k < dwords; k++) from[k] = sp_vgpr_stored(w, i, SP_SRC_VGPR + ((i->src[1] + k) & 255));
    if (SP_UNLIKELY(w->stop || is_gds(w, i))) return (int)w->stop;
    for (uint64_t left = w->exec; left; left &= left - 1) {
        uint32_t l = (uint32_t)__builtin_ctzll(left), data[4];
        for (uint32_t k = 0; k < dwords; k++) data[k] = from[k][l] >> shift;
        if (lds_write(w, i, l, at[l] + offset, data, nbytes)) return SP_WAVE_FAULT;
    }
    if (SP_UNLIKELY(w->poison_seen)) stored_poison(w, i, i->src[1], at, offset, nbytes);
    stored(w);
    return 0;
}

#define LOADS(X)                                                                                                      \
    SP_LOADS_WHOLE(X)                                                                                                 \
    X(U8_D16, 1, SP_LOAD_D16_U8)                                                                                      \
    X(I8_D16, 1, SP_LOAD_D16_I8)                                                                                      \
    X(U16_D16, 2, SP_LOAD_D16_B16)                                                                                    \
    X(U8_D16_HI, 1, SP_LOAD_D16_HI_U8)                                                                                \
    X(I8_D16_HI, 1, SP_LOAD_D16_HI_I8)                                                                                \
    X(U16_D16_HI, 2, SP_LOAD_D16_HI_B16)
#define STORES(X) SP_STORES_WHOLE(X) X(B8_D16_HI, 1, 16) X(B16_D16_HI, 2, 16)
#define DEFINE_LOAD(SUFFIX, NBYTES, KIND)                                                                             \
    HEAD(DS_LOAD_##SUFFIX) { return load(w, i, NBYTES, KIND); }
#define DEFINE_STORE(SUFFIX, NBYTES, SHIFT)                                                                           \
    HEAD(DS_STORE_##SUFFIX) { return store(w, i, NBYTES, SHIFT); }
#define ENTRY_LOAD(SUFFIX, NBYTES, KIND) SP_OP_ENTRY(DS_LOAD_##SUFFIX)
#define ENTRY_STORE(SUFFIX, NBYTES, SHIFT) SP_OP_ENTRY(DS_STORE_##SUFFIX)
LOADS(DEFINE_LOAD)
STORES(DEFINE_STORE)

/* --- two addresses: OFFSET0 and OFFSET1 count in elements, or in 64 of them --- */
static uint32_t offset_of(const struct sp_inst *i, uint32_t which, uint32_t unit)
{
    return ((uint32_t)i->offset >> 8 * which & 255) * unit;
}

SP_INLINE int load2(struct sp_wave *w, const struct sp_inst *i, uint32_t nbytes, uint32_t stride)
{
    uint32_t r[4][SP_LANES], each = nbytes / 4, first = offset_of(i, 0, nbytes * stride),
                             second = offset_of(i, 1, nbytes * stride);
    const uint32_t *at = sp_vgpr(w, i, i->src[0]);
    if (SP_UNLIKELY(w->stop || is_gds(w, i))) return (int)w->stop;
    for (uint64_t left = w->exec; left; left &= left - 1) {
        uint32_t l = (uint32_t)__builtin_ctzll(left), data[4] = {0};
        if (lds_read(w, i, l, at[l] + first, data, nbytes) || lds_read(w, i, l, at[l] + second, data + each, nbytes))
            return SP_WAVE_FAULT;
        for (uint32_t k = 0; k < 2 * each; k++) r[k][l] = data[k];
    }
    if (SP_UNLIKELY(w->poison_seen)) {
        uint64_t va[SP_LANES], undefined[4];
        struct sp_touched t = touched(w, at, first, nbytes, va);
        uint8_t why = sp_poison_find(w, i, each, &t, undefined), other;
        t = touched(w, at, second, nbytes, va);
        other = sp_poison_find(w, i, each, &t, undefined + each);
        for (uint32_t k = 0; k < 2 * each; k++) sp_put_loaded(w, i->dst + k, r[k]);
        sp_wave_poison_begins(w, SP_PEND_LDS, i->dst, 2 * each, undefined, why ? why : other);
        return 0;
    }
    loaded(w, i, r, 2 * each);
    return 0;
}

SP_INLINE int store2(struct sp_wave *w, const struct sp_inst *i, uint32_t nbytes, uint32_t stride)
{
    uint32_t each = nbytes / 4, first = offset_of(i, 0, nbytes * stride), second = offset_of(i, 1, nbytes * stride);
    const uint32_t *at = sp_vgpr(w, i, i->src[0]), *from[2][2];
    for (uint32_t k = 0; k < each; k++) {
        from[0][k] = sp_vgpr_stored(w, i, SP_SRC_VGPR + ((i->src[1] + k) & 255));
        from[1][k] = sp_vgpr_stored(w, i, SP_SRC_VGPR + ((i->src[2] + k) & 255));
    }
    if (SP_UNLIKELY(w->stop || is_gds(w, i))) return (int)w->stop;
    for (uint64_t left = w->exec; left; left &= left - 1) {
        uint32_t l = (uint32_t)__builtin_ctzll(left), data[2][2] = {{0}};
        for (uint32_t k = 0; k < each; k++) {
            data[0][k] = from[0][k][l];
            data[1][k] = from[1][k][l];
        }
        if (lds_write(w, i, l, at[l] + first, data[0], nbytes) || lds_write(w, i, l, at[l] + second, data[1], nbytes))
            return SP_WAVE_FAULT;
    }
    if (SP_UNLIKELY(w->poison_seen)) {
        stored_poison(w, i, i->src[1], at, first, nbytes);
        stored_poison(w, i, i->src[2], at, second, nbytes);
    }
    stored(w);
    return 0;
}

#define TWO(X) X(2ADDR_B32, 4, 1) X(2ADDR_B64, 8, 1) X(2ADDR_STRIDE64_B32, 4, 64) X(2ADDR_STRIDE64_B64, 8, 64)
#define DEFINE_TWO(SUFFIX, NBYTES, STRIDE)                                                                            \
    HEAD(DS_LOAD_##SUFFIX) { return load2(w, i, NBYTES, STRIDE); }                                                    \
    HEAD(DS_STORE_##SUFFIX) { return store2(w, i, NBYTES, STRIDE); }
#define ENTRY_TWO(SUFFIX, NBYTES, STRIDE) SP_OP_ENTRY(DS_LOAD_##SUFFIX) SP_OP_ENTRY(DS_STORE_##SUFFIX)
TWO(DEFINE_TWO)

/* M0[15:0] + offset + 4 * lane. */
static uint32_t add_tid(struct sp_wave *w, const struct sp_inst *i, uint32_t lane)
{
    return (sp_s32(w, i, SP_SRC_M0) & 0xFFFF) + ((uint32_t)i->offset & 0xFFFF) + 4 * lane;
}

HEAD(DS_LOAD_ADDTID_B32)
{
    uint32_t r[1][SP_LANES], at[SP_LANES];
    SP_EACH_LANE(w, l) at[l] = add_tid(w, i, l);
    for (uint32_t l = 0; l < w->lanes; l++)
        if ((w->exec >> l & 1) && lds_read(w, i, l, at[l], &r[0][l], 4)) return SP_WAVE_FAULT;
    if (!w->stop && w->poison_seen) return poisoned(w, i, at, 0, 4, r);
    if (!w->stop) loaded(w, i, r, 1);
    return (int)w->stop;
}

HEAD(DS_STORE_ADDTID_B32)
{
    const uint32_t *data = sp_vgpr(w, i, i->src[1]);
    for (uint32_t l = 0; l < w->lanes; l++)
        if ((w->exec >> l & 1) && lds_write(w, i, l, add_tid(w, i, l), &data[l], 4)) return SP_WAVE_FAULT;
    stored(w);
    return (int)w->stop;
}

/* --- atomics: each of a group's waves runs alone, lane after lane --- */
static uint64_t value_of(struct sp_wave *w, const uint16_t *code, uint32_t nbytes, uint32_t lane)
{
    uint32_t r = *code & 255;
    return w->v[r][lane] | (nbytes == 8 ? (uint64_t)w->v[(r + 1) & 255][lane] << 32 : 0);
}

/* sources: 1, or 2 for those that compare or mask; `swapped`: the value compared with comes first (RDNA2's CMPST). */
static int atomic(struct sp_wave *w, const struct sp_inst *i, enum sp_atomic op, uint32_t nbytes, bool returns,
                  uint32_t sources, bool swapped)
{
    uint32_t r[2][SP_LANES], offset = (uint32_t)i->offset & 0xFFFF;
    const uint32_t *at = sp_vgpr(w, i, i->src[0]);
    for (uint32_t s = 1; s <= sources; s++)
        for (uint32_t k = 0; k < nbytes / 4; k++) sp_vgpr(w, i, SP_SRC_VGPR + ((i->src[s] + k) & 255));
    if (w->stop || is_gds(w, i)) return (int)w->stop;
    for (uint64_t left = w->exec; left; left &= left - 1) {
        uint32_t l = (uint32_t)__builtin_ctzll(left), a = at[l] + offset;
        uint64_t old = 0, data = value_of(w, &i->src[swapped ? 2 : 1], nbytes, l);
        uint64_t other = sources == 2 ? value_of(w, &i->src[swapped ? 1 : 2], nbytes, l) : 0;
        if (a % nbytes) {
            sp_wave_fault(w, SP_FAULT_ALIGNMENT, "%s at LDS 0x%x, not a multiple of %u", sp_wave_op_name(i->op), a, nbytes);
            return sp_wave_fault_at(w, l);
        }
        if (lds_use(w, i, l, a, &old, nbytes)) return SP_WAVE_FAULT;
        uint64_t value = sp_atomic_result(op, nbytes, old, data, other);
        if (lds_write(w, i, l, a, &value, nbytes)) return SP_WAVE_FAULT;
        r[0][l] = (uint32_t)old;
        r[1][l] = (uint32_t)(old >> 32);
    }
    if (returns)
        loaded(w, i, r, nbytes / 4);
    else
        stored(w);
    return 0;
}

/* X(operation's name, type, operation, bytes, sources, swapped) */
#define ATOMICS(X)                                                                                                    \
    X(ADD, U32, ADD, 4, 1, false) X(SUB, U32, SUB, 4, 1, false) X(RSUB, U32, RSUB, 4, 1, false)                       \
    X(INC, U32, INC, 4, 1, false) X(DEC, U32, DEC, 4, 1, false) X(MIN, I32, SMIN, 4, 1, false)                        \
    X(MAX, I32, SMAX, 4, 1, false) X(MIN, U32, UMIN, 4, 1, false) X(MAX, U32, UMAX, 4, 1, false)                      \
    X(AND, B32, AND, 4, 1, false) X(OR, B32, OR, 4, 1, false) X(XOR, B32, XOR, 4, 1, false)                           \
    X(MSKOR, B32, MSKOR, 4, 2, false) X(CMPST, B32, CMPSWAP, 4, 2, true) X(CMPSTORE, B32, CMPSWAP, 4, 2, false)       \
    X(CMPST, F32, FCMPSWAP, 4, 2, true) X(CMPSTORE, F32, FCMPSWAP, 4, 2, false) X(ADD, F32, FADD, 4, 1, false)        \
    X(MIN, F32, FMIN, 4, 1, false) X(MAX, F32, FMAX, 4, 1, false)                                                     \
    X(ADD, U64, ADD, 8, 1, false) X(SUB, U64, SUB, 8, 1, false) X(RSUB, U64, RSUB, 8, 1, false)                       \
    X(INC, U64, INC, 8, 1, false) X(DEC, U64, DEC, 8, 1, false) X(MIN, I64, SMIN, 8, 1, false)                        \
    X(MAX, I64, SMAX, 8, 1, false) X(MIN, U64, UMIN, 8, 1, false) X(MAX, U64, UMAX, 8, 1, false)                      \
    X(AND, B64, AND, 8, 1, false) X(OR, B64, OR, 8, 1, false) X(XOR, B64, XOR, 8, 1, false)                           \
    X(MSKOR, B64, MSKOR, 8, 2, false) X(CMPST, B64, CMPSWAP, 8, 2, true) X(CMPSTORE, B64, CMPSWAP, 8, 2, false)       \
    X(CMPST, F64, FCMPSWAP, 8, 2, true) X(CMPSTORE, F64, FCMPSWAP, 8, 2, false) X(MIN, F64, FMIN, 8, 1, false)        \
    X(MAX, F64, FMAX, 8, 1, false)
#define DEFINE_ATOMIC(NAME, TYPE, OP, NBYTES, SOURCES, SWAPPED)                                                       \
    HEAD(DS_##NAME##_##TYPE) { return atomic(w, i, SP_ATOMIC_##OP, NBYTES, false, SOURCES, SWAPPED); }                \
    HEAD(DS_##NAME##_RTN_##TYPE) { return atomic(w, i, SP_ATOMIC_##OP, NBYTES, true, SOURCES, SWAPPED); }
#define ENTRY_ATOMIC(NAME, TYPE, OP, NBYTES, SOURCES, SWAPPED)                                                        \
    SP_OP_ENTRY(DS_##NAME##_##TYPE) SP_OP_ENTRY(DS_##NAME##_RTN_##TYPE)
ATOMICS(DEFINE_ATOMIC)
HEAD(DS_STOREXCHG_RTN_B32) { return atomic(w, i, SP_ATOMIC_SWAP, 4, true, 1, false); }
HEAD(DS_STOREXCHG_RTN_B64) { return atomic(w, i, SP_ATOMIC_SWAP, 8, true, 1, false); }
HEAD(DS_WRAP_RTN_B32) { return atomic(w, i, SP_ATOMIC_WRAP, 4, true, 2, false); }

/* Two exchanges; both old values are read before anything is written. */
static int exchange2(struct sp_wave *w, const struct sp_inst *i, uint32_t nbytes, uint32_t stride)
{
    uint32_t r[4][SP_LANES], each = nbytes / 4, first = offset_of(i, 0, nbytes * stride),
                             second = offset_of(i, 1, nbytes * stride);
    const uint32_t *at = sp_vgpr(w, i, i->src[0]);
    for (uint32_t k = 0; k < each; k++) {
        sp_vgpr(w, i, SP_SRC_VGPR + ((i->src[1] + k) & 255));
        sp_vgpr(w, i, SP_SRC_VGPR + ((i->src[2] + k) & 255));
    }
    if (w->stop || is_gds(w, i)) return (int)w->stop;
    for (uint64_t left = w->exec; left; left &= left - 1) {
        uint32_t l = (uint32_t)__builtin_ctzll(left), old[4] = {0};
        uint64_t a = value_of(w, &i->src[1], nbytes, l), b = value_of(w, &i->src[2], nbytes, l);
        if (lds_use(w, i, l, at[l] + first, old, nbytes) || lds_use(w, i, l, at[l] + second, old + each, nbytes) ||
            lds_write(w, i, l, at[l] + first, &a, nbytes) || lds_write(w, i, l, at[l] + second, &b, nbytes))
            return SP_WAVE_FAULT;
        for (uint32_t k = 0; k < 2 * each; k++) r[k][l] = old[k];
    }
    loaded(w, i, r, 2 * each);
    return 0;
}
HEAD(DS_STOREXCHG_2ADDR_RTN_B32) { return exchange2(w, i, 4, 1); }
HEAD(DS_STOREXCHG_2ADDR_RTN_B64) { return exchange2(w, i, 8, 1); }
HEAD(DS_STOREXCHG_2ADDR_STRIDE64_RTN_B32) { return exchange2(w, i, 4, 64); }
HEAD(DS_STOREXCHG_2ADDR_STRIDE64_RTN_B64) { return exchange2(w, i, 8, 64); }

/* Each dword whose new value has bit 31 is stored without it. */
HEAD(DS_CONDXCHG32_RTN_B64)
{
    uint32_t r[2][SP_LANES];
    const uint32_t *at = sp_vgpr(w, i, i->src[0]);
    for (uint32_t k = 0; k < 2; k++) sp_vgpr(w, i, SP_SRC_VGPR + ((i->src[1] + k) & 255));
    if (w->stop || is_gds(w, i)) return (int)w->stop;
    for (uint64_t left = w->exec; left; left &= left - 1) {
        uint32_t l = (uint32_t)__builtin_ctzll(left), a = (at[l] + ((uint32_t)i->offset & 0xFFFF)) & 0xFFF8;
        for (uint32_t k = 0; k < 2; k++) {
            uint32_t data = w->v[(i->src[1] + k) & 255][l], value = data & INT32_MAX;
            if (lds_use(w, i, l, a + 4 * k, &r[k][l], 4)) return SP_WAVE_FAULT;
            if (data >> 31 && lds_write(w, i, l, a + 4 * k, &value, 4)) return SP_WAVE_FAULT;
        }
    }
    loaded(w, i, r, 2);
    return 0;
}

/* A counter at M0 + offset takes the number of active lanes; all of them get what it was (M0 holds the pointer: LLVM's
 * SelectDSAppendConsume). */
static int count_lanes(struct sp_wave *w, const struct sp_inst *i, uint32_t by)
{
    uint32_t r[1][SP_LANES], old = 0, at = (sp_s32(w, i, SP_SRC_M0) & 0xFFFF) + ((uint32_t)i->offset & 0xFFFF);
    if (w->stop || is_gds(w, i) || !w->exec) return (int)w->stop;
    if (lds_use(w, i, 0, at, &old, 4)) return SP_WAVE_FAULT;
    uint32_t value = old + by;
    if (lds_write(w, i, 0, at, &value, 4)) return SP_WAVE_FAULT;
    sp_fill(w, r[0], old);
    loaded(w, i, r, 1);
    return 0;
}
HEAD(DS_APPEND) { return count_lanes(w, i, w->active); }
HEAD(DS_CONSUME) { return count_lanes(w, i, 0 - w->active); }

HEAD(DS_NOP)
{
    (void)w, (void)i;
    return 0;
}

#define E SP_OP_ENTRY
const struct sp_wave_op sp_wave_ds[] = {
    LOADS(ENTRY_LOAD) STORES(ENTRY_STORE) TWO(ENTRY_TWO) ATOMICS(ENTRY_ATOMIC) E(DS_STOREXCHG_RTN_B32)
    E(DS_STOREXCHG_RTN_B64) E(DS_WRAP_RTN_B32) E(DS_STOREXCHG_2ADDR_RTN_B32) E(DS_STOREXCHG_2ADDR_RTN_B64)
    E(DS_STOREXCHG_2ADDR_STRIDE64_RTN_B32) E(DS_STOREXCHG_2ADDR_STRIDE64_RTN_B64) E(DS_CONDXCHG32_RTN_B64) E(DS_APPEND)
    E(DS_CONSUME) E(DS_LOAD_ADDTID_B32) E(DS_STORE_ADDTID_B32) E(DS_NOP) SP_OP_END};
