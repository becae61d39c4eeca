/* LDS: loads, stores, and the lane permutations that go through its crossbar. They complete in
 * order (lgkmcnt). */
#include "ds.h"
#include "families.h"

#define HEAD(NAME) static int NAME(struct sp_wave *w, const struct sp_inst *i)

/* --- the LDS memory of a group --- */
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

SP_RARE void was_written(struct sp_wave *w, uint32_t at, uint32_t nbytes)
{
    for (uint32_t d = at / 4; w->strict && d <= (at + nbytes - 1) / 4; d++)
        if (!w->group->lds_written[d]) w->poison_seen = 1 + d;
}

SP_INLINE int lds_read(struct sp_wave *w, const struct sp_inst *i, uint32_t lane, uint32_t at, void *to, uint32_t nbytes)
{
    const struct sp_group *g = w->group;
    if (SP_UNLIKELY((uint64_t)at + nbytes > g->lds_bytes)) return out_of_range(w, i, lane, at, nbytes);
    sp_move(to, g->lds + at, nbytes);
    /* Only bytes that may be poison need the slow check was_written. They may be poison if one of
     * their dwords equals SP_POISON, or if the access covers only a part of a dword. */
    bool look = (at | nbytes) % 4 != 0;
    for (uint32_t k = 0; k + 4 <= nbytes; k += 4) look |= ((const uint32_t *)to)[k / 4] == SP_POISON;
    if (SP_UNLIKELY(look)) was_written(w, at, nbytes);
    return 0;
}

SP_INLINE int lds_write(struct sp_wave *w, const struct sp_inst *i, uint32_t lane, uint32_t at, const void *from,
                        uint32_t nbytes)
{
    const struct sp_group *g = w->group;
    if (SP_UNLIKELY((uint64_t)at + nbytes > g->lds_bytes)) return out_of_range(w, i, lane, at, nbytes);
    for (uint32_t d = at / 4; d <= (at + nbytes - 1) / 4; d++) g->lds_written[d] = 1;
    sp_move(g->lds + at, from, nbytes);
    return 0;
}

int sp_lds_read(struct sp_wave *w, const struct sp_inst *i, uint32_t lane, uint32_t at, void *to, uint32_t nbytes)
{
    return lds_read(w, i, lane, at, to, nbytes);
}

int sp_lds_use(struct sp_wave *w, const struct sp_inst *i, uint32_t lane, uint32_t at, void *to, uint32_t nbytes)
{
    int rc = lds_read(w, i, lane, at, to, nbytes);
    return !rc && SP_UNLIKELY(w->poison_seen) ? never_written(w, i, lane, (w->poison_seen - 1) * 4) : rc;
}

int sp_lds_write(struct sp_wave *w, const struct sp_inst *i, uint32_t lane, uint32_t at, const void *from, uint32_t nbytes)
{
    return lds_write(w, i, lane, at, from, nbytes);
}

bool sp_ds_is_gds(struct sp_wave *w, const struct sp_inst *i)
{
    if (i->gds) sp_wave_fault(w, SP_FAULT_OPERAND, "%s: GDS is not modelled", sp_wave_op_name(i->op));
    return i->gds;
}

void sp_ds_loaded(struct sp_wave *w, const struct sp_inst *i, uint32_t (*r)[SP_LANES], uint32_t dwords)
{
    for (uint32_t k = 0; k < dwords; k++) sp_put_loaded(w, i->dst + k, r[k]);
    sp_wave_load_begins(w, SP_PEND_LDS, i->dst, dwords);
}

/* Returns a description of a load or store with one address per lane, for the functions that look
 * for poison. */
SP_RARE struct sp_touched touched(const struct sp_wave *w, const uint32_t *at, uint32_t offset, uint32_t nbytes, uint64_t *va)
{
    SP_EACH_LANE(w, l) va[l] = at[l] + offset;
    return (struct sp_touched){SP_PLACE_LDS, nbytes, va, w->exec, 4, 0};
}

int sp_ds_raced(struct sp_wave *w, const struct sp_inst *i, enum sp_race_kind kind, const uint32_t *at, uint32_t offset,
                uint32_t nbytes, const struct sp_ds_data *data)
{
    uint64_t va[SP_LANES];
    struct sp_race_lanes a = {va, w->exec, 4, nbytes, 0, data ? data->from : NULL, data ? data->shift : 0};
    if (!w->race) return 0;
    SP_EACH_LANE(w, l) va[l] = at[l] + offset;
    return sp_race_lds(w, i, kind, &a, true);
}

/* Ends a load that read at least one unwritten dword of LDS. Writes the loaded values to the
 * registers, and marks as poison those that received an unwritten dword. */
SP_RARE int poisoned(struct sp_wave *w, const struct sp_inst *i, const uint32_t *at, uint32_t offset, uint32_t nbytes,
                    uint32_t (*r)[SP_LANES])
{
    uint64_t va[SP_LANES];
    struct sp_touched t = touched(w, at, offset, nbytes, va);
    for (uint32_t k = 0; k < (nbytes + 3) / 4; k++) sp_put_loaded(w, i->dst + k, r[k]);
    return sp_poison_loaded(w, i, SP_PEND_LDS, i->dst, (nbytes + 3) / 4, &t);
}

SP_RARE void stored_poison(struct sp_wave *w, uint32_t src, const uint32_t *at, uint32_t offset, uint32_t nbytes)
{
    uint64_t va[SP_LANES];
    struct sp_touched t = touched(w, at, offset, nbytes, va);
    sp_poison_stored(w, src, &t);
}

/* --- loads and stores with one address --- */
SP_INLINE int load(struct sp_wave *w, const struct sp_inst *i, uint32_t nbytes, enum sp_load kind)
{
    uint32_t r[4][SP_LANES], dwords = (nbytes + 3) / 4, offset = (uint32_t)i->offset & 0xFFFF;
    const uint32_t *at = sp_vgpr(w, i, i->src[0]);
    if (SP_UNLIKELY(w->stop || sp_ds_is_gds(w, i))) return (int)w->stop;
    for (uint64_t left = w->exec; left; left &= left - 1) {
        uint32_t l = (uint32_t)__builtin_ctzll(left), data[4] = {0};
        if (lds_read(w, i, l, at[l] + offset, data, nbytes)) return SP_WAVE_FAULT;
        for (uint32_t k = 0; k < dwords; k++) r[k][l] = sp_loaded(kind, data[k], w->v[i->dst & 255][l]);
    }
    if (sp_ds_raced(w, i, SP_RACE_LOAD, at, offset, nbytes, NULL)) return SP_WAVE_FAULT;
    if (SP_UNLIKELY(w->poison_seen)) return poisoned(w, i, at, offset, nbytes, r);
    sp_ds_loaded(w, i, r, dwords);
    return 0;
}

SP_INLINE int store(struct sp_wave *w, const struct sp_inst *i, uint32_t nbytes, uint32_t shift)
{
    uint32_t dwords = (nbytes + 3) / 4, offset = (uint32_t)i->offset & 0xFFFF;
    const uint32_t *at = sp_vgpr(w, i, i->src[0]), *from[4];
    for (uint32_t k = 0; k < dwords; k++) from[k] = sp_vgpr_stored(w, i, SP_SRC_VGPR + ((i->src[1] + k) & 255));
    if (SP_UNLIKELY(w->stop || sp_ds_is_gds(w, i))) return (int)w->stop;
    if (sp_ds_raced(w, i, SP_RACE_STORE, at, offset, nbytes, &(struct sp_ds_data){from, shift})) return SP_WAVE_FAULT;
    for (uint64_t left = w->exec; left; left &= left - 1) {
        uint32_t l = (uint32_t)__builtin_ctzll(left), data[4];
        for (uint32_t k = 0; k < dwords; k++) data[k] = from[k][l] >> shift;
        if (lds_write(w, i, l, at[l] + offset, data, nbytes)) return SP_WAVE_FAULT;
    }
    if (SP_UNLIKELY(w->poison_seen)) stored_poison(w, i->src[1], at, offset, nbytes);
    sp_ds_stored(w);
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
SP_RARE int rare_load(struct sp_wave *w, const struct sp_inst *i, uint32_t nbytes, enum sp_load kind)
{
    return load(w, i, nbytes, kind);
}

SP_RARE int rare_store(struct sp_wave *w, const struct sp_inst *i, uint32_t nbytes, uint32_t shift)
{
    return store(w, i, nbytes, shift);
}

#define DEFINE_LOAD(SUFFIX, NBYTES, KIND)                                                                             \
    HEAD(DS_LOAD_##SUFFIX)                                                                                            \
    {                                                                                                                 \
        return (NBYTES) == 4 ? load(w, i, NBYTES, KIND) : rare_load(w, i, NBYTES, KIND);                              \
    }
#define DEFINE_STORE(SUFFIX, NBYTES, SHIFT)                                                                           \
    HEAD(DS_STORE_##SUFFIX)                                                                                           \
    {                                                                                                                 \
        return (NBYTES) == 4 ? store(w, i, NBYTES, SHIFT) : rare_store(w, i, NBYTES, SHIFT);                          \
    }
#define ENTRY_LOAD(SUFFIX, NBYTES, KIND) SP_OP_ENTRY(DS_LOAD_##SUFFIX)
#define ENTRY_STORE(SUFFIX, NBYTES, SHIFT) SP_OP_ENTRY(DS_STORE_##SUFFIX)
LOADS(DEFINE_LOAD)
STORES(DEFINE_STORE)

/* --- loads and stores with two addresses --- */
SP_RARE int poisoned2(struct sp_wave *w, const struct sp_inst *i, const uint32_t *at, uint32_t first, uint32_t second,
                      uint32_t nbytes, uint32_t (*r)[SP_LANES])
{
    uint64_t va[SP_LANES], undefined[4];
    uint32_t each = nbytes / 4;
    struct sp_touched t = touched(w, at, first, nbytes, va);
    uint8_t why = sp_poison_find(w, i, each, &t, undefined), other;
    t = touched(w, at, second, nbytes, va);
    other = sp_poison_find(w, i, each, &t, undefined + each);
    for (uint32_t k = 0; k < 2 * each; k++) sp_put_loaded(w, i->dst + k, r[k]);
    sp_wave_poison_begins(w, SP_PEND_LDS, i->dst, 2 * each, undefined, why ? why : other);
    return 0;
}

SP_INLINE int load2(struct sp_wave *w, const struct sp_inst *i, uint32_t nbytes, uint32_t stride)
{
    uint32_t r[4][SP_LANES], each = nbytes / 4, first = sp_ds_offset(i, 0, nbytes * stride),
                             second = sp_ds_offset(i, 1, nbytes * stride);
    const uint32_t *at = sp_vgpr(w, i, i->src[0]);
    if (SP_UNLIKELY(w->stop || sp_ds_is_gds(w, i))) return (int)w->stop;
    for (uint64_t left = w->exec; left; left &= left - 1) {
        uint32_t l = (uint32_t)__builtin_ctzll(left), data[4] = {0};
        if (lds_read(w, i, l, at[l] + first, data, nbytes) || lds_read(w, i, l, at[l] + second, data + each, nbytes))
            return SP_WAVE_FAULT;
        for (uint32_t k = 0; k < 2 * each; k++) r[k][l] = data[k];
    }
    if (sp_ds_raced(w, i, SP_RACE_LOAD, at, first, nbytes, NULL) || sp_ds_raced(w, i, SP_RACE_LOAD, at, second, nbytes, NULL))
        return SP_WAVE_FAULT;
    if (SP_UNLIKELY(w->poison_seen)) return poisoned2(w, i, at, first, second, nbytes, r);
    sp_ds_loaded(w, i, r, 2 * each);
    return 0;
}

SP_INLINE int store2(struct sp_wave *w, const struct sp_inst *i, uint32_t nbytes, uint32_t stride)
{
    uint32_t each = nbytes / 4, first = sp_ds_offset(i, 0, nbytes * stride), second = sp_ds_offset(i, 1, nbytes * stride);
    const uint32_t *at = sp_vgpr(w, i, i->src[0]), *from[2][2];
    for (uint32_t k = 0; k < each; k++) {
        from[0][k] = sp_vgpr_stored(w, i, SP_SRC_VGPR + ((i->src[1] + k) & 255));
        from[1][k] = sp_vgpr_stored(w, i, SP_SRC_VGPR + ((i->src[2] + k) & 255));
    }
    if (SP_UNLIKELY(w->stop || sp_ds_is_gds(w, i))) return (int)w->stop;
    if (sp_ds_raced(w, i, SP_RACE_STORE, at, first, nbytes, &(struct sp_ds_data){from[0], 0}) ||
        sp_ds_raced(w, i, SP_RACE_STORE, at, second, nbytes, &(struct sp_ds_data){from[1], 0}))
        return SP_WAVE_FAULT;
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
        stored_poison(w, i->src[1], at, first, nbytes);
        stored_poison(w, i->src[2], at, second, nbytes);
    }
    sp_ds_stored(w);
    return 0;
}

SP_RARE int rare_load2(struct sp_wave *w, const struct sp_inst *i, uint32_t nbytes, uint32_t stride)
{
    return load2(w, i, nbytes, stride);
}

SP_RARE int rare_store2(struct sp_wave *w, const struct sp_inst *i, uint32_t nbytes, uint32_t stride)
{
    return store2(w, i, nbytes, stride);
}

#define TWO(X) X(2ADDR_B32, 4, 1) X(2ADDR_B64, 8, 1) X(2ADDR_STRIDE64_B32, 4, 64) X(2ADDR_STRIDE64_B64, 8, 64)
#define DEFINE_TWO(SUFFIX, NBYTES, STRIDE)                                                                            \
    HEAD(DS_LOAD_##SUFFIX)                                                                                            \
    {                                                                                                                 \
        return (STRIDE) == 1 ? load2(w, i, NBYTES, STRIDE) : rare_load2(w, i, NBYTES, STRIDE);                        \
    }                                                                                                                 \
    HEAD(DS_STORE_##SUFFIX)                                                                                           \
    {                                                                                                                 \
        return (STRIDE) * (NBYTES) == 4 ? store2(w, i, NBYTES, STRIDE) : rare_store2(w, i, NBYTES, STRIDE);           \
    }
#define ENTRY_TWO(SUFFIX, NBYTES, STRIDE) SP_OP_ENTRY(DS_LOAD_##SUFFIX) SP_OP_ENTRY(DS_STORE_##SUFFIX)
TWO(DEFINE_TWO)

/* Returns the LDS address of a lane: M0[15:0] + offset + 4 * lane. */
static uint32_t add_tid(struct sp_wave *w, const struct sp_inst *i, size_t lane)
{
    return (sp_s32(w, i, SP_SRC_M0) & 0xFFFF) + ((uint32_t)i->offset & 0xFFFF) + 4 * (uint32_t)lane;
}

HEAD(DS_LOAD_ADDTID_B32)
{
    uint32_t r[1][SP_LANES], at[SP_LANES];
    SP_EACH_LANE(w, l) at[l] = add_tid(w, i, l);
    for (uint32_t l = 0; l < w->lanes; l++)
        if ((w->exec >> l & 1) && lds_read(w, i, l, at[l], &r[0][l], 4)) return SP_WAVE_FAULT;
    if (!w->stop && sp_ds_raced(w, i, SP_RACE_LOAD, at, 0, 4, NULL)) return SP_WAVE_FAULT;
    if (!w->stop && w->poison_seen) return poisoned(w, i, at, 0, 4, r);
    if (!w->stop) sp_ds_loaded(w, i, r, 1);
    return (int)w->stop;
}

HEAD(DS_STORE_ADDTID_B32)
{
    const uint32_t *data = sp_vgpr(w, i, i->src[1]);
    uint32_t at[SP_LANES];
    SP_EACH_LANE(w, l) at[l] = add_tid(w, i, l);
    if (w->stop || sp_ds_raced(w, i, SP_RACE_STORE, at, 0, 4, &(struct sp_ds_data){&data, 0})) return SP_WAVE_FAULT;
    for (uint32_t l = 0; l < w->lanes; l++)
        if ((w->exec >> l & 1) && lds_write(w, i, l, at[l], &data[l], 4)) return SP_WAVE_FAULT;
    sp_ds_stored(w);
    return (int)w->stop;
}

/* --- lane permutations: they access no memory --- */
static int put(struct sp_wave *w, const struct sp_inst *i, uint16_t code, const uint32_t *r, uint64_t undefined)
{
    if (w->stop) return (int)w->stop;
    sp_put_loaded(w, i->dst, r);
    if (SP_LIKELY(!undefined || !w->strict)) {
        sp_wave_load_begins(w, SP_PEND_LDS, i->dst, 1);
    } else {
        uint8_t why = sp_wave_origin_of(w, code);
        sp_wave_poison_begins(w, SP_PEND_LDS, i->dst, 1, &undefined, why ? why : sp_wave_origin(w, i, SP_FROM_REGISTER, code));
    }
    return 0;
}

/* Returns the value of lane `from` of src[1], for lane `to`. An inactive lane `from` gives 0. */
static uint32_t lane_value(struct sp_wave *w, const struct sp_inst *i, uint16_t code, uint32_t to, uint32_t from, uint64_t *undefined)
{
    if (!(w->exec >> from & 1)) return 0;
    if (!(w->vgpr_ready[code & 255] >> from & 1) && sp_wave_is_pending(w, code)) sp_wave_not_ready(w, i, code);
    *undefined |= (sp_wave_undefined_lanes(w, code) >> from & 1) << to;
    return w->v[code & 255][from];
}

/* An address is 4 times the number of the lane to read. Each half of a wave64 permutes within
 * itself. */
HEAD(DS_BPERMUTE_B32)
{
    uint32_t r[SP_LANES];
    uint64_t undefined = 0;
    const uint32_t *at = sp_vgpr(w, i, i->src[0]);
    for (uint32_t l = 0; l < w->lanes; l++)
        r[l] = lane_value(w, i, i->src[1], l, (l & 32) + ((at[l] + ((uint32_t)i->offset & 0xFFFF)) / 4 & 31), &undefined);
    return put(w, i, i->src[1], r, undefined);
}

HEAD(DS_PERMUTE_B32)
{
    uint32_t r[SP_LANES] = {0};
    const uint32_t *at = sp_vgpr(w, i, i->src[0]), *data = sp_vgpr(w, i, i->src[1]);
    for (uint32_t l = 0; l < w->lanes; l++)
        if (w->exec >> l & 1) r[(l & 32) + ((at[l] + ((uint32_t)i->offset & 0xFFFF)) / 4 & 31)] = data[l];
    return put(w, i, i->src[1], r, 0);
}

/* If bit 15 of OFFSET is set, each lane reads a lane of its own quad, which two bits of OFFSET
 * select. Otherwise lane l of 32 lanes reads lane ((l & AND) | OR) ^ XOR. AND, OR and XOR are masks
 * of five bits each in OFFSET. */
HEAD(DS_SWIZZLE_B32)
{
    uint32_t r[SP_LANES], k = (uint32_t)i->offset & 0xFFFF;
    uint64_t undefined = 0;
    if (k >= 0xC000) return sp_wave_fault(w, SP_FAULT_OPERAND, "DS_SWIZZLE_B32: mode 0x%x is not modelled", k);
    for (uint32_t l = 0; l < w->lanes; l++) {
        uint32_t from = k & 0x8000 ? (l & ~3u) + (k >> 2 * (l & 3) & 3)
                                   : (l & 32) + ((((l & 31) & (k & 31)) | (k >> 5 & 31)) ^ (k >> 10 & 31));
        r[l] = lane_value(w, i, i->src[0], l, from, &undefined);
    }
    return put(w, i, i->src[0], r, undefined);
}

HEAD(DS_NOP)
{
    (void)w, (void)i;
    return 0;
}

#define E SP_OP_ENTRY
const struct sp_wave_op sp_wave_ds[] = {LOADS(ENTRY_LOAD) STORES(ENTRY_STORE) TWO(ENTRY_TWO) E(DS_LOAD_ADDTID_B32)
                                            E(DS_STORE_ADDTID_B32) E(DS_BPERMUTE_B32) E(DS_PERMUTE_B32) E(DS_SWIZZLE_B32) E(DS_NOP)
                                                SP_OP_END};
