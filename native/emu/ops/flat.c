/* FLAT, GLOBAL and SCRATCH instructions. A FLAT address is in LDS or scratch if its upper half is
 * that of the LDS or scratch aperture. Scratch is interleaved by dwords: dword d of all lanes of a
 * wave is contiguous ("Scratch" in the RDNA3 ISA document). */
#include "ds.h"
#include "families.h"
#include "emu/memory/unit.h"

#define HEAD(NAME) static int NAME(struct sp_wave *w, const struct sp_inst *i)

enum { SEGMENT_FLAT = 0, SEGMENT_SCRATCH = 1, SEGMENT_GLOBAL = 2 };

/* Computes the lanes' addresses; for scratch, offsets in the lane's own memory. */
SP_INLINE void addresses(struct sp_wave *w, const struct sp_inst *i, int segment, uint64_t *va)
{
    uint64_t base = (uint64_t)(int64_t)i->offset;
    if (segment == SEGMENT_SCRATCH) {
        uint32_t offset = (uint32_t)i->offset + (i->saddr_null ? 0 : sp_s32(w, i, i->sbase));
        const uint32_t *v = i->src_ndw[0] ? sp_vgpr(w, i, i->src[0]) : NULL;
        SP_EACH_LANE(w, l) va[l] = (uint32_t)(offset + (v ? v[l] : 0));
    } else if (segment == SEGMENT_GLOBAL && !i->saddr_null) {
        const uint32_t *v = sp_vgpr(w, i, i->src[0]);
        base += sp_s64(w, i, i->sbase);
        SP_EACH_LANE(w, l) va[l] = base + v[l];
    } else {
        const uint32_t *low = sp_vgpr(w, i, i->src[0]), *high = sp_vgpr(w, i, SP_SRC_VGPR + ((i->src[0] + 1u) & 255));
        SP_EACH_LANE(w, l) va[l] = base + (low[l] | (uint64_t)high[l] << 32);
    }
}

static int scratch_bad(struct sp_wave *w, const struct sp_inst *i, uint32_t lane, uint64_t offset)
{
    sp_wave_fault(w, SP_FAULT_UNMAPPED, "%s: offset 0x%llx is beyond the lane's %llu bytes of scratch",
                  sp_wave_op_name(i->op), (unsigned long long)offset, (unsigned long long)(w->scratch_bytes / w->lanes));
    return sp_wave_fault_at(w, lane);
}

static int scratch(struct sp_wave *w, const struct sp_inst *i, uint32_t lane, uint64_t offset, uint8_t *data,
                   uint32_t nbytes, bool write)
{
    if (w->flat_scratch_undefined)
        return sp_wave_fault(w, SP_FAULT_UNINITIALISED, "%s uses FLAT_SCRATCH, which was never written",
                             sp_wave_op_name(i->op));
    if (offset + nbytes > w->scratch_bytes / w->lanes) return scratch_bad(w, i, lane, offset);
    if (write) w->scratch_stored = w->vs_issued + 1;
    for (uint32_t done = 0; done < nbytes;) {
        uint64_t at = offset + done, bit = sp_scratch_bit(w, at, lane);
        uint32_t step = 4 - (uint32_t)(at & 3);
        if (step > nbytes - done) step = nbytes - done;
        uint64_t va = w->flat_scratch + (at & ~UINT64_C(3)) * w->lanes + lane * 4u + (at & 3);
        int rc = write ? sp_emu_write(w->tlb, va, data + done, step) : sp_emu_read(w->tlb, va, data + done, step);
        if (rc) return sp_wave_fault_at(w, lane);
        if (w->scratch_written && write) sp_scratch_write(w, bit, 1);
        if (w->scratch_written && !sp_scratch_is_written(w, bit)) w->poison_seen = 1;
        done += step;
    }
    return 0;
}

/* Reads the data of one lane. `segment` is a compile-time constant. */
SP_INLINE int lane_read(struct sp_wave *w, const struct sp_inst *i, int segment, struct sp_reach *reach, uint32_t lane,
                        uint64_t va, uint32_t *data, uint32_t nbytes)
{
    if (segment == SEGMENT_SCRATCH) return scratch(w, i, lane, va, (uint8_t *)data, nbytes, false);
    if (segment == SEGMENT_FLAT && va >> 32 == SP_PRIVATE_HIGH)
        return scratch(w, i, lane, (uint32_t)va, (uint8_t *)data, nbytes, false);
    if (segment == SEGMENT_FLAT && va >> 32 == SP_SHARED_HIGH) return sp_lds_read(w, i, lane, (uint32_t)va, data, nbytes);
    return sp_reach_read(reach, va, data, nbytes) ? sp_wave_fault_at(w, lane) : 0;
}

SP_INLINE int lane_write(struct sp_wave *w, const struct sp_inst *i, int segment, struct sp_reach *reach, uint32_t lane,
                         uint64_t va, uint32_t *data, uint32_t nbytes)
{
    if (segment == SEGMENT_SCRATCH) return scratch(w, i, lane, va, (uint8_t *)data, nbytes, true);
    if (segment == SEGMENT_FLAT && va >> 32 == SP_PRIVATE_HIGH)
        return scratch(w, i, lane, (uint32_t)va, (uint8_t *)data, nbytes, true);
    if (segment == SEGMENT_FLAT && va >> 32 == SP_SHARED_HIGH) return sp_lds_write(w, i, lane, (uint32_t)va, data, nbytes);
    return sp_reach_write(reach, va, data, nbytes) ? sp_wave_fault_at(w, lane) : 0;
}

/* Returns true if all lanes together read one contiguous range within one page, in the order of
 * lanes. `*host` receives the host address of the range. */
SP_INLINE bool one_piece(struct sp_wave *w, struct sp_reach *reach, const uint64_t *va, uint32_t nbytes, uint8_t **host)
{
    uint64_t first = va[0], odd = 0;
    if (w->exec != w->full) return false;
    SP_EACH_LANE(w, l) odd |= va[l] ^ (first + (uint64_t)l * nbytes);
    if (odd) return false;
    *host = sp_reach_at(reach, first, nbytes * w->lanes);
    return *host != NULL;
}

/* Reports an instruction's accesses in LDS and memory to race/. Scratch is not reported, because
 * each lane has its own. */
SP_RARE int raced(struct sp_wave *w, const struct sp_inst *i, enum sp_race_kind kind, int segment, struct sp_race_lanes *a)
{
    uint64_t in_lds = 0, elsewhere = 0;
    for (uint64_t left = segment == SEGMENT_FLAT ? a->lanes : 0; left; left &= left - 1) {
        uint32_t l = (uint32_t)__builtin_ctzll(left), high = (uint32_t)(a->va[l] >> 32);
        in_lds |= (uint64_t)(high == SP_SHARED_HIGH) << l;
        elsewhere |= (uint64_t)(high == SP_SHARED_HIGH || high == SP_PRIVATE_HIGH) << l;
    }
    if (segment == SEGMENT_SCRATCH) return 0;
    a->lanes &= ~elsewhere;
    if (a->lanes && sp_race_memory(w, i, kind, a)) return SP_WAVE_FAULT;
    a->lanes = in_lds;
    return in_lds ? sp_race_lds(w, i, kind, a, false) : 0;
}

SP_RARE struct sp_touched touched(const struct sp_wave *w, int segment, uint32_t nbytes, const uint64_t *va)
{
    enum sp_place place = segment == SEGMENT_GLOBAL ? SP_PLACE_MEMORY
                                                    : segment == SEGMENT_SCRATCH ? SP_PLACE_SCRATCH : SP_PLACE_FLAT;
    return (struct sp_touched){place, nbytes, va, w->exec, 4, 0};
}

SP_RARE int poisoned(struct sp_wave *w, const struct sp_inst *i, int segment, uint32_t nbytes, const uint64_t *va)
{
    struct sp_touched t = touched(w, segment, nbytes, va);
    return sp_poison_loaded(w, i, segment == SEGMENT_FLAT ? SP_PEND_FLAT : SP_PEND_VM, i->dst, (nbytes + 3) / 4, &t);
}

SP_RARE void stored_poison(struct sp_wave *w, const struct sp_inst *i, int segment, uint32_t nbytes, const uint64_t *va)
{
    struct sp_touched t = touched(w, segment, nbytes, va);
    sp_poison_stored(w, i->src[1], &t);
}

SP_INLINE int load(struct sp_wave *w, const struct sp_inst *i, int segment, uint32_t nbytes, enum sp_load kind)
{
    uint64_t va[SP_LANES];
    uint32_t r[4][SP_LANES], dwords = (nbytes + 3) / 4, whole = 0;
    struct sp_reach reach = sp_reach_of(w, sp_wave_load_access(w, i));
    uint8_t *host;
    addresses(w, i, segment, va);
    if (SP_UNLIKELY(w->stop)) return (int)w->stop;
    if (segment == SEGMENT_GLOBAL && nbytes == 4 && one_piece(w, &reach, va, 4, &host)) {
        whole = va[0] % 4 == 0;
        memcpy(w->v[i->dst & 255], host, w->lanes * 4u);
        w->vgpr_ready[i->dst & 255] |= w->exec;
        goto loaded;
    }
    if (w->stop) return (int)w->stop;
    for (uint64_t left = w->exec; left; left &= left - 1) {
        uint32_t l = (uint32_t)__builtin_ctzll(left), data[4] = {0};
        if (lane_read(w, i, segment, &reach, l, va[l], data, nbytes)) return SP_WAVE_FAULT;
        for (uint32_t k = 0; k < dwords; k++) r[k][l] = sp_loaded(kind, data[k], w->v[i->dst & 255][l]);
    }
    for (uint32_t k = 0; k < dwords; k++) sp_put_loaded(w, i->dst + k, r[k]);
loaded:
    if (w->race) {
        struct sp_race_lanes a = {va, w->exec, 4, nbytes, whole, NULL, 0};
        if (raced(w, i, sp_race_load(reach.access), segment, &a)) return SP_WAVE_FAULT;
    }
    if (SP_UNLIKELY(w->poison_seen)) return poisoned(w, i, segment, nbytes, va);
    sp_wave_load_begins(w, segment == SEGMENT_FLAT ? SP_PEND_FLAT : SP_PEND_VM, i->dst, dwords);
    return (int)w->stop;
}

SP_INLINE int store(struct sp_wave *w, const struct sp_inst *i, int segment, uint32_t nbytes, uint32_t shift)
{
    uint64_t va[SP_LANES];
    uint32_t dwords = (nbytes + 3) / 4;
    const uint32_t *from[4];
    struct sp_reach reach = sp_reach_of(w, SP_VM_WRITE);
    uint8_t *host;
    addresses(w, i, segment, va);
    for (uint32_t k = 0; k < dwords; k++)
        from[k] = sp_vgpr_stored(w, i, SP_SRC_VGPR + ((i->src[1] + k) & 255));
    if (SP_UNLIKELY(w->stop)) return (int)w->stop;
    bool whole = segment == SEGMENT_GLOBAL && nbytes == 4 && one_piece(w, &reach, va, 4, &host);
    if (w->race) {
        struct sp_race_lanes a = {va, w->exec, 4, nbytes, whole && va[0] % 4 == 0, from, shift};
        if (raced(w, i, SP_RACE_STORE, segment, &a)) return SP_WAVE_FAULT;
    }
    if (whole) {
        sp_emu_writes(w->tlb, va[0], w->lanes * 4u);
        memcpy(host, from[0], w->lanes * 4u);
        sp_emu_wrote(w->tlb, va[0], w->lanes * 4u);
        goto stored;
    }
    for (uint64_t left = w->exec; left; left &= left - 1) {
        uint32_t l = (uint32_t)__builtin_ctzll(left), data[4];
        for (uint32_t k = 0; k < dwords; k++) data[k] = from[k][l] >> shift;
        if (lane_write(w, i, segment, &reach, l, va[l], data, nbytes)) return SP_WAVE_FAULT;
    }
stored:
    w->vs_issued++;
    if (SP_UNLIKELY(w->poison_seen)) stored_poison(w, i, segment, nbytes, va);
    return (int)w->stop;
}

SP_RARE int rare_load(struct sp_wave *w, const struct sp_inst *i, int segment, uint32_t nbytes, enum sp_load kind)
{
    return load(w, i, segment, nbytes, kind);
}

SP_RARE int rare_store(struct sp_wave *w, const struct sp_inst *i, int segment, uint32_t nbytes, uint32_t shift)
{
    return store(w, i, segment, nbytes, shift);
}

#define DEFINE_LOAD(SUFFIX, NBYTES, KIND)                                                                             \
    HEAD(FLAT_LOAD_##SUFFIX) { return rare_load(w, i, SEGMENT_FLAT, NBYTES, KIND); }                                  \
    HEAD(GLOBAL_LOAD_##SUFFIX)                                                                                        \
    {                                                                                                                 \
        return (NBYTES) == 4 ? load(w, i, SEGMENT_GLOBAL, NBYTES, KIND) : rare_load(w, i, SEGMENT_GLOBAL, NBYTES, KIND);\
    }                                                                                                                 \
    HEAD(SCRATCH_LOAD_##SUFFIX) { return rare_load(w, i, SEGMENT_SCRATCH, NBYTES, KIND); }
#define DEFINE_STORE(SUFFIX, NBYTES, SHIFT)                                                                           \
    HEAD(FLAT_STORE_##SUFFIX) { return rare_store(w, i, SEGMENT_FLAT, NBYTES, SHIFT); }                               \
    HEAD(GLOBAL_STORE_##SUFFIX)                                                                                       \
    {                                                                                                                 \
        return (NBYTES) == 4 ? store(w, i, SEGMENT_GLOBAL, NBYTES, SHIFT) : rare_store(w, i, SEGMENT_GLOBAL, NBYTES, SHIFT);\
    }                                                                                                                 \
    HEAD(SCRATCH_STORE_##SUFFIX) { return rare_store(w, i, SEGMENT_SCRATCH, NBYTES, SHIFT); }
SP_LOADS(DEFINE_LOAD)
SP_STORES(DEFINE_STORE)
#define ENTRY_LOAD(SUFFIX, NBYTES, KIND)                                                                              \
    SP_OP_ENTRY(FLAT_LOAD_##SUFFIX) SP_OP_ENTRY(GLOBAL_LOAD_##SUFFIX) SP_OP_ENTRY(SCRATCH_LOAD_##SUFFIX)
#define ENTRY_STORE(SUFFIX, NBYTES, SHIFT)                                                                            \
    SP_OP_ENTRY(FLAT_STORE_##SUFFIX) SP_OP_ENTRY(GLOBAL_STORE_##SUFFIX) SP_OP_ENTRY(SCRATCH_STORE_##SUFFIX)

/* Address of a lane: SADDR + 4 * lane + offset. */
HEAD(GLOBAL_LOAD_ADDTID_B32)
{
    uint64_t base = sp_s64(w, i, i->sbase) + (uint64_t)(int64_t)i->offset, va[SP_LANES];
    uint32_t r[SP_LANES] = {0};
    struct sp_touched t = touched(w, SEGMENT_GLOBAL, 4, va);
    SP_EACH_LANE(w, l) va[l] = base + 4u * l;
    if (w->stop) return (int)w->stop;
    for (uint32_t l = 0; l < w->lanes; l++)
        if ((w->exec >> l & 1) && sp_emu_read_as(w->tlb, va[l], &r[l], 4, sp_wave_load_access(w, i)))
            return sp_wave_fault_at(w, l);
    struct sp_race_lanes a = {va, w->exec, 4, 4, 0, NULL, 0};
    if (w->race && sp_race_memory(w, i, sp_race_load(sp_wave_load_access(w, i)), &a)) return SP_WAVE_FAULT;
    sp_put_loaded(w, i->dst, r);
    return sp_poison_loaded(w, i, SP_PEND_VM, i->dst, 1, &t);
}

HEAD(GLOBAL_STORE_ADDTID_B32)
{
    uint64_t base = sp_s64(w, i, i->sbase) + (uint64_t)(int64_t)i->offset, va[SP_LANES];
    const uint32_t *data = sp_vgpr_stored(w, i, i->src[1]);
    struct sp_touched t = touched(w, SEGMENT_GLOBAL, 4, va);
    SP_EACH_LANE(w, l) va[l] = base + 4u * l;
    if (w->stop) return (int)w->stop;
    struct sp_race_lanes a = {va, w->exec, 4, 4, 0, &data, 0};
    if (w->race && sp_race_memory(w, i, SP_RACE_STORE, &a)) return SP_WAVE_FAULT;
    for (uint32_t l = 0; l < w->lanes; l++)
        if ((w->exec >> l & 1) && sp_emu_write(w->tlb, va[l], &data[l], 4)) return sp_wave_fault_at(w, l);
    w->vs_issued++;
    if (w->poison_seen) sp_poison_stored(w, i->src[1], &t);
    return 0;
}

/* --- atomics of FLAT and GLOBAL --- */
static int lane_atomic(struct sp_wave *w, const struct sp_inst *i, uint32_t lane, uint64_t va, enum sp_atomic op,
                       uint32_t nbytes, const uint64_t *data, uint64_t *old)
{
    if (va % nbytes) {
        sp_wave_fault(w, SP_FAULT_ALIGNMENT, "%s at 0x%llx, not a multiple of %u", sp_wave_op_name(i->op),
                      (unsigned long long)va, nbytes);
        return sp_wave_fault_at(w, lane);
    }
    if (i->segment == SEGMENT_FLAT && va >> 32 == SP_PRIVATE_HIGH)
        return sp_wave_fault(w, SP_FAULT_OPERAND, "%s on scratch memory", sp_wave_op_name(i->op));
    if (i->segment == SEGMENT_FLAT && va >> 32 == SP_SHARED_HIGH) {
        uint64_t value = 0;
        if (sp_lds_use(w, i, lane, (uint32_t)va, &value, nbytes)) return SP_WAVE_FAULT;
        *old = value;
        value = sp_atomic_result(op, nbytes, value, data[0], data[1]);
        return sp_lds_write(w, i, lane, (uint32_t)va, &value, nbytes);
    }
    uint8_t *host = sp_emu_at(w->tlb, va, SP_VM_READ | SP_VM_WRITE);
    if (!host) return sp_wave_fault_at(w, lane);
    if (sp_atomic_place(w, i, lane, va, nbytes, host)) return SP_WAVE_FAULT;
    *old = sp_atomic_cached(w, va, op, nbytes, host, data);
    return 0;
}

static int atomic(struct sp_wave *w, const struct sp_inst *i, enum sp_atomic op, uint32_t nbytes)
{
    struct sp_atomic_lanes a;
    uint64_t va[SP_LANES];
    addresses(w, i, i->segment, va);
    sp_atomic_gather(w, i, op, nbytes, &a);
    if (w->stop) return (int)w->stop;
    struct sp_race_lanes told = {va, w->exec, 4, nbytes, 0, NULL, 0};
    if (w->race && raced(w, i, sp_race_atomic(i), i->segment, &told)) return SP_WAVE_FAULT;
    for (uint64_t left = w->exec; left; left &= left - 1) {
        uint32_t l = (uint32_t)__builtin_ctzll(left);
        uint64_t data[2], old = 0;
        sp_atomic_data(&a, l, data);
        if (lane_atomic(w, i, l, va[l], op, nbytes, data, &old)) return SP_WAVE_FAULT;
        sp_atomic_keep(&a, l, old);
    }
    told.lanes = w->exec & ~told.lanes; /* lanes whose addresses are in memory, not in LDS */
    if (w->race && i->glc) sp_race_acquires(w, &told);
    w->vs_issued += !i->glc;
    sp_atomic_return(w, i, &a, i->dst, i->segment == SEGMENT_FLAT ? SP_PEND_FLAT : SP_PEND_VM);
    return 0;
}

#define DEFINE_ATOMIC(SUFFIX, OP, NBYTES)                                                                             \
    HEAD(FLAT_ATOMIC_##SUFFIX) { return atomic(w, i, SP_ATOMIC_##OP, NBYTES); }                                       \
    HEAD(GLOBAL_ATOMIC_##SUFFIX) { return atomic(w, i, SP_ATOMIC_##OP, NBYTES); }
#define ENTRY_ATOMIC(SUFFIX, OP, NBYTES) SP_OP_ENTRY(FLAT_ATOMIC_##SUFFIX) SP_OP_ENTRY(GLOBAL_ATOMIC_##SUFFIX)
SP_ATOMICS(DEFINE_ATOMIC)
HEAD(GLOBAL_ATOMIC_CSUB_U32) { return atomic(w, i, SP_ATOMIC_CSUB, 4); }

#define E SP_OP_ENTRY
const struct sp_wave_op sp_wave_flat[] = {SP_LOADS(ENTRY_LOAD) SP_STORES(ENTRY_STORE) SP_ATOMICS(ENTRY_ATOMIC)
                                              E(GLOBAL_ATOMIC_CSUB_U32) E(GLOBAL_LOAD_ADDTID_B32)
                                                  E(GLOBAL_STORE_ADDTID_B32) SP_OP_END};
