/* LDS instructions: atomics, exchanges and counters. The waves of a group run one at a time, and
 * their lanes one after another. So the host needs no atomic instructions for them. */
#include "ds.h"
#include "families.h"

#define HEAD(NAME) static int NAME(struct sp_wave *w, const struct sp_inst *i)

static uint64_t value_of(struct sp_wave *w, const uint16_t *code, uint32_t nbytes, uint32_t lane)
{
    uint32_t r = *code & 255;
    return w->v[r][lane] | (nbytes == 8 ? (uint64_t)w->v[(r + 1) & 255][lane] << 32 : 0);
}

/* Executes an atomic. `sources` is 1, or 2 for a comparison or a mask. With `swapped` the
 * comparison value comes first (CMPST of RDNA2). */
static int atomic(struct sp_wave *w, const struct sp_inst *i, enum sp_atomic op, uint32_t nbytes, bool returns,
                  uint32_t sources, bool swapped)
{
    uint32_t r[2][SP_LANES], offset = (uint32_t)i->offset & 0xFFFF;
    const uint32_t *at = sp_vgpr(w, i, i->src[0]);
    for (uint32_t s = 1; s <= sources; s++)
        for (uint32_t k = 0; k < nbytes / 4; k++) sp_vgpr(w, i, SP_SRC_VGPR + ((i->src[s] + k) & 255));
    if (w->stop || sp_ds_is_gds(w, i)) return (int)w->stop;
    if (sp_ds_raced(w, i, returns ? SP_RACE_RETURNING : SP_RACE_ATOMIC, at, offset, nbytes, NULL)) return SP_WAVE_FAULT;
    for (uint64_t left = w->exec; left; left &= left - 1) {
        uint32_t l = (uint32_t)__builtin_ctzll(left), a = at[l] + offset;
        uint64_t old = 0, data = value_of(w, &i->src[swapped ? 2 : 1], nbytes, l);
        uint64_t other = sources == 2 ? value_of(w, &i->src[swapped ? 1 : 2], nbytes, l) : 0;
        if (a % nbytes) {
            sp_wave_fault(w, SP_FAULT_ALIGNMENT, "%s at LDS 0x%x, not a multiple of %u", sp_wave_op_name(i->op), a, nbytes);
            return sp_wave_fault_at(w, l);
        }
        if (sp_lds_use(w, i, l, a, &old, nbytes)) return SP_WAVE_FAULT;
        uint64_t value = sp_atomic_result(op, nbytes, old, data, other);
        if (sp_lds_write(w, i, l, a, &value, nbytes)) return SP_WAVE_FAULT;
        r[0][l] = (uint32_t)old;
        r[1][l] = (uint32_t)(old >> 32);
    }
    if (returns)
        sp_ds_loaded(w, i, r, nbytes / 4);
    else
        sp_ds_stored(w);
    return 0;
}

/* X(name, type, operation, bytes, sources, swapped) stands for the instructions DS_<name>_<type>
 * and DS_<name>_RTN_<type>. The operation is SP_ATOMIC_<operation>. `bytes`: size of a value.
 * `sources`: number of data operands. `swapped`: the comparison value is the first of them. */
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

/* Executes two exchanges. Both old values are read before either is written. */
static int exchange2(struct sp_wave *w, const struct sp_inst *i, uint32_t nbytes, uint32_t stride)
{
    uint32_t r[4][SP_LANES], each = nbytes / 4, first = sp_ds_offset(i, 0, nbytes * stride),
                             second = sp_ds_offset(i, 1, nbytes * stride);
    const uint32_t *at = sp_vgpr(w, i, i->src[0]);
    for (uint32_t k = 0; k < each; k++) {
        sp_vgpr(w, i, SP_SRC_VGPR + ((i->src[1] + k) & 255));
        sp_vgpr(w, i, SP_SRC_VGPR + ((i->src[2] + k) & 255));
    }
    if (w->stop || sp_ds_is_gds(w, i)) return (int)w->stop;
    if (sp_ds_raced(w, i, SP_RACE_RETURNING, at, first, nbytes, NULL) ||
        sp_ds_raced(w, i, SP_RACE_RETURNING, at, second, nbytes, NULL))
        return SP_WAVE_FAULT;
    for (uint64_t left = w->exec; left; left &= left - 1) {
        uint32_t l = (uint32_t)__builtin_ctzll(left), old[4] = {0};
        uint64_t a = value_of(w, &i->src[1], nbytes, l), b = value_of(w, &i->src[2], nbytes, l);
        if (sp_lds_use(w, i, l, at[l] + first, old, nbytes) || sp_lds_use(w, i, l, at[l] + second, old + each, nbytes) ||
            sp_lds_write(w, i, l, at[l] + first, &a, nbytes) || sp_lds_write(w, i, l, at[l] + second, &b, nbytes))
            return SP_WAVE_FAULT;
        for (uint32_t k = 0; k < 2 * each; k++) r[k][l] = old[k];
    }
    sp_ds_loaded(w, i, r, 2 * each);
    return 0;
}
HEAD(DS_STOREXCHG_2ADDR_RTN_B32) { return exchange2(w, i, 4, 1); }
HEAD(DS_STOREXCHG_2ADDR_RTN_B64) { return exchange2(w, i, 8, 1); }
HEAD(DS_STOREXCHG_2ADDR_STRIDE64_RTN_B32) { return exchange2(w, i, 4, 64); }
HEAD(DS_STOREXCHG_2ADDR_STRIDE64_RTN_B64) { return exchange2(w, i, 8, 64); }

/* For each of the two dwords, bit 31 of the data says whether to store. If it is 1, bits 30 to 0 of
 * the data are stored, with bit 31 as 0. */
HEAD(DS_CONDXCHG32_RTN_B64)
{
    uint32_t r[2][SP_LANES];
    const uint32_t *at = sp_vgpr(w, i, i->src[0]);
    for (uint32_t k = 0; k < 2; k++) sp_vgpr(w, i, SP_SRC_VGPR + ((i->src[1] + k) & 255));
    if (w->stop || sp_ds_is_gds(w, i)) return (int)w->stop;
    if (sp_ds_raced(w, i, SP_RACE_RETURNING, at, (uint32_t)i->offset & 0xFFFF, 8, NULL)) return SP_WAVE_FAULT;
    for (uint64_t left = w->exec; left; left &= left - 1) {
        uint32_t l = (uint32_t)__builtin_ctzll(left), a = (at[l] + ((uint32_t)i->offset & 0xFFFF)) & 0xFFF8;
        for (uint32_t k = 0; k < 2; k++) {
            uint32_t data = w->v[(i->src[1] + k) & 255][l], value = data & INT32_MAX;
            if (sp_lds_use(w, i, l, a + 4 * k, &r[k][l], 4)) return SP_WAVE_FAULT;
            if (data >> 31 && sp_lds_write(w, i, l, a + 4 * k, &value, 4)) return SP_WAVE_FAULT;
        }
    }
    sp_ds_loaded(w, i, r, 2);
    return 0;
}

/* Adds `by` to the counter at LDS address M0[15:0] + offset. `by` is the number of active lanes for
 * DS_APPEND, and minus that number for DS_CONSUME. All active lanes get the old value. M0 is the
 * base address as in LLVM's SelectDSAppendConsume. */
static int count_lanes(struct sp_wave *w, const struct sp_inst *i, uint32_t by)
{
    uint32_t r[1][SP_LANES], old = 0, at = (sp_s32(w, i, SP_SRC_M0) & 0xFFFF) + ((uint32_t)i->offset & 0xFFFF);
    if (w->stop || sp_ds_is_gds(w, i) || !w->exec) return (int)w->stop;
    sp_fill(w, r[0], at);
    if (sp_ds_raced(w, i, SP_RACE_RETURNING, r[0], 0, 4, NULL)) return SP_WAVE_FAULT;
    if (sp_lds_use(w, i, 0, at, &old, 4)) return SP_WAVE_FAULT;
    uint32_t value = old + by;
    if (sp_lds_write(w, i, 0, at, &value, 4)) return SP_WAVE_FAULT;
    sp_fill(w, r[0], old);
    sp_ds_loaded(w, i, r, 1);
    return 0;
}
HEAD(DS_APPEND) { return count_lanes(w, i, w->active); }
HEAD(DS_CONSUME) { return count_lanes(w, i, 0 - w->active); }

#define E SP_OP_ENTRY
const struct sp_wave_op sp_wave_ds_atomic[] = {
    ATOMICS(ENTRY_ATOMIC) E(DS_STOREXCHG_RTN_B32) E(DS_STOREXCHG_RTN_B64) E(DS_WRAP_RTN_B32)
    E(DS_STOREXCHG_2ADDR_RTN_B32) E(DS_STOREXCHG_2ADDR_RTN_B64) E(DS_STOREXCHG_2ADDR_STRIDE64_RTN_B32)
    E(DS_STOREXCHG_2ADDR_STRIDE64_RTN_B64) E(DS_CONDXCHG32_RTN_B64) E(DS_APPEND) E(DS_CONSUME) SP_OP_END};
