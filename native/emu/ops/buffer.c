/* MUBUF: untyped buffers. The buffer descriptor determines the addresses ("Memory Buffer
 * Instructions", RDNA2 and RDNA3 ISA documents): linear or swizzled, range-checked by OOB_SELECT.
 * Loads out of range give 0, stores out of range do nothing. RADV reads arrays by these
 * instructions; clang reads scratch by them on gfx10.
 *
 * Formatted access is in texel/typed.c; TFE is not modelled. A load goes to LDS with gfx10's LDS
 * bit, or as gfx11's BUFFER_LOAD_LDS_*. */
#include "buffer.h"
#include "emu/cache/unit.h"
#include "families.h"

#define HEAD(NAME) static int NAME(struct sp_wave *w, const struct sp_inst *i)

struct resource {
    uint64_t base;
    uint32_t stride, records;
    /* number of lanes whose data are interleaved in one block of a swizzled buffer */
    uint32_t index_stride;
    uint32_t oob;
    bool swizzled, adds_tid;
};

static struct resource resource_of(struct sp_wave *w, const struct sp_inst *i)
{
    uint64_t low = sp_s64(w, i, i->sbase), high = sp_s64(w, i, i->sbase + 2u);
    uint32_t word1 = (uint32_t)(low >> 32), word3 = (uint32_t)(high >> 32);
    struct resource r = {(uint64_t)((int64_t)(low << 16) >> 16), word1 >> 16 & 0x3FFF, (uint32_t)high,
                         8u << (word3 >> 21 & 3), word3 >> 28 & 3, false, (word3 >> 23 & 1) != 0};
    r.swizzled = w->generation == 10 ? (word1 >> 31) != 0 : (word1 >> 30) != 0;
    return r;
}

uint64_t sp_buffer_addresses(struct sp_wave *w, const struct sp_inst *i, uint32_t nbytes, uint64_t *va)
{
    struct resource rsrc = resource_of(w, i);
    uint32_t soffset = sp_s32(w, i, i->soffset), which = 0;
    const uint32_t *index = i->idxen ? sp_vgpr(w, i, i->src[0] + which++) : NULL;
    const uint32_t *offset = i->offen ? sp_vgpr(w, i, i->src[0] + which) : NULL;
    uint64_t inside = 0;
    for (uint32_t l = 0; l < w->lanes; l++) {
        uint64_t n = (uint64_t)(index ? index[l] : 0) + (rsrc.adds_tid ? l : 0);
        /* the sum wraps around at 32 bits (addr_calc_buffer.h of rocjitsu) */
        uint64_t o = (uint32_t)((offset ? offset[l] : 0) + (uint32_t)i->offset);
        bool ok;
        switch (rsrc.oob) {
        case 0: ok = n < rsrc.records && (rsrc.stride == 0 || o + nbytes <= rsrc.stride); break;
        case 1: ok = n < rsrc.records; break;
        case 2: ok = rsrc.records != 0; break;
        default: ok = o + soffset + nbytes <= rsrc.records + (rsrc.swizzled ? UINT64_C(1) << 40 : 0); break;
        }
        if (rsrc.swizzled)
            o = ((n / rsrc.index_stride) * rsrc.stride + o / 4 * 4) * rsrc.index_stride + n % rsrc.index_stride * 4 + o % 4;
        else
            o += n * rsrc.stride;
        va[l] = rsrc.base + soffset + o;
        inside |= (uint64_t)ok << l;
    }
    if (i->tfe) sp_wave_fault(w, SP_FAULT_OPERAND, "%s: TFE is not modelled", sp_wave_op_name(i->op));
    return inside;
}

/* Returns the address of the wave's scratch if the descriptor points to it, else 0. On gfx10
 * compilers access scratch by a swizzled descriptor that adds the lane number. */
static uint64_t scratch_slot(struct sp_wave *w, const struct sp_inst *i)
{
    if (SP_LIKELY(!w->scratch_written)) return 0;
    struct resource rsrc = resource_of(w, i);
    return rsrc.swizzled && rsrc.adds_tid ? rsrc.base : 0;
}

int sp_buffer_raced(struct sp_wave *w, const struct sp_inst *i, enum sp_race_kind kind, const struct sp_race_lanes *a)
{
    if (w->scratch_bytes) {
        struct resource rsrc = resource_of(w, i);
        if (rsrc.swizzled && rsrc.adds_tid) return 0;
    }
    return sp_race_memory(w, i, kind, a);
}

uint64_t sp_buffer_step(struct sp_wave *w, const struct sp_inst *i)
{
    struct resource rsrc = resource_of(w, i);
    return rsrc.swizzled ? 4u * rsrc.index_stride : 4;
}

/* LDS address: M0[15:0] + the instruction's offset + 4 * lane ("Memory Buffer Load to LDS", RDNA2
 * ISA document, 8.1.7). */
int sp_buffer_to_lds(struct sp_wave *w, const struct sp_inst *i, const uint32_t *data, uint64_t undefined)
{
    uint32_t at = (sp_s32(w, i, SP_SRC_M0) & 0xFFFF) + (uint32_t)i->offset;
    uint64_t va[SP_LANES];
    struct sp_race_lanes a = {va, w->exec, 4, 4, 0, &data, 0};
    SP_EACH_LANE(w, l) va[l] = at + 4 * l;
    if (w->race && sp_race_lds(w, i, SP_RACE_STORE, &a, false)) return SP_WAVE_FAULT;
    for (uint64_t left = w->exec; left; left &= left - 1) {
        uint32_t l = (uint32_t)__builtin_ctzll(left);
        if (sp_lds_write(w, i, l, at + 4 * l, &data[l], 4)) return (int)w->stop;
        if (undefined >> l & 1) sp_lds_unwrite(w->group, at / 4 + l, 1);
    }
    sp_wave_load_begins(w, SP_PEND_VM, 0, 0);
    return (int)w->stop;
}

/* The last step of a load that may have read poison, or whose data go to LDS: records which
 * registers or LDS bytes are poison. */
SP_RARE int rare_end(struct sp_wave *w, const struct sp_inst *i, uint32_t nbytes, const uint64_t *va, uint64_t inside,
                     const uint32_t *for_lds)
{
    uint64_t undefined[4];
    uint32_t dwords = (nbytes + 3) / 4;
    struct sp_touched t = {SP_PLACE_MEMORY, nbytes, va, w->exec & inside, sp_buffer_step(w, i), scratch_slot(w, i)};
    uint8_t why = sp_poison_find(w, i, dwords, &t, undefined);
    if (for_lds) return sp_buffer_to_lds(w, i, for_lds, undefined[0]);
    sp_wave_poison_begins(w, SP_PEND_VM, i->dst, dwords, undefined, why);
    return 0;
}

SP_RARE void stored_poison(struct sp_wave *w, const struct sp_inst *i, uint32_t nbytes, const uint64_t *va, uint64_t inside)
{
    struct sp_touched t = {SP_PLACE_MEMORY, nbytes, va, w->exec & inside, sp_buffer_step(w, i), scratch_slot(w, i)};
    sp_poison_stored(w, i->src[1], &t);
}

static bool can_reach_lds(uint32_t nbytes, enum sp_load kind) { return nbytes <= 4 && kind <= SP_LOAD_DWORDS; }

SP_INLINE int load(struct sp_wave *w, const struct sp_inst *i, uint32_t nbytes, enum sp_load kind, bool to_lds)
{
    uint64_t va[SP_LANES], step = sp_buffer_step(w, i), inside = sp_buffer_addresses(w, i, nbytes, va);
    uint32_t r[4][SP_LANES], dwords = (nbytes + 3) / 4, piece = nbytes < 4 ? nbytes : 4;
    struct sp_reach reach = sp_reach_of(w, sp_wave_load_access(w, i));
    if (SP_UNLIKELY(i->lds && !can_reach_lds(nbytes, kind)))
        sp_wave_fault(w, SP_FAULT_OPERAND, "%s: only loads of one dword or less reach LDS", sp_wave_op_name(i->op));
    if (SP_UNLIKELY(w->stop)) return (int)w->stop;
    for (uint64_t left = w->exec; left; left &= left - 1) {
        uint32_t l = (uint32_t)__builtin_ctzll(left);
        for (uint32_t k = 0; k < dwords; k++) {
            uint32_t data = 0;
            if ((inside >> l & 1) && sp_reach_read(&reach, va[l] + k * step, &data, piece)) return sp_wave_fault_at(w, l);
            r[k][l] = sp_loaded(kind, data, w->v[i->dst & 255][l]);
        }
    }
    if (w->race) {
        struct sp_race_lanes a = {va, w->exec & inside, step, nbytes, 0, NULL, 0};
        if (sp_buffer_raced(w, i, sp_race_load(reach.access), &a)) return SP_WAVE_FAULT;
    }
    bool in_lds = to_lds || i->lds;
    if (!in_lds)
        for (uint32_t k = 0; k < dwords; k++) sp_put_loaded(w, i->dst + k, r[k]);
    if (SP_UNLIKELY(w->scratch_written || w->poison_seen || in_lds)) return rare_end(w, i, nbytes, va, inside, in_lds ? r[0] : NULL);
    sp_wave_load_begins(w, SP_PEND_VM, i->dst, dwords);
    return 0;
}

SP_INLINE int store(struct sp_wave *w, const struct sp_inst *i, uint32_t nbytes, uint32_t shift)
{
    uint64_t va[SP_LANES], step = sp_buffer_step(w, i), inside = sp_buffer_addresses(w, i, nbytes, va);
    uint32_t dwords = (nbytes + 3) / 4, piece = nbytes < 4 ? nbytes : 4;
    struct sp_reach reach = sp_reach_of(w, SP_VM_WRITE);
    const uint32_t *from[4];
    for (uint32_t k = 0; k < dwords; k++) from[k] = sp_vgpr_stored(w, i, SP_SRC_VGPR + ((i->src[1] + k) & 255));
    if (SP_UNLIKELY(w->stop)) return (int)w->stop;
    if (w->race) {
        struct sp_race_lanes a = {va, w->exec & inside, step, nbytes, 0, from, shift};
        if (sp_buffer_raced(w, i, SP_RACE_STORE, &a)) return SP_WAVE_FAULT;
    }
    for (uint64_t left = w->exec & inside; left; left &= left - 1) {
        uint32_t l = (uint32_t)__builtin_ctzll(left);
        for (uint32_t k = 0; k < dwords; k++) {
            uint32_t data = from[k][l] >> shift;
            if (sp_reach_write(&reach, va[l] + k * step, &data, piece)) return sp_wave_fault_at(w, l);
        }
    }
    w->vs_issued++;
    if (SP_UNLIKELY(w->scratch_written || w->poison_seen)) stored_poison(w, i, nbytes, va, inside);
    return 0;
}

SP_RARE int rare_load(struct sp_wave *w, const struct sp_inst *i, uint32_t nbytes, enum sp_load kind, bool to_lds)
{
    return load(w, i, nbytes, kind, to_lds);
}

SP_RARE int rare_store(struct sp_wave *w, const struct sp_inst *i, uint32_t nbytes, uint32_t shift)
{
    return store(w, i, nbytes, shift);
}

#define DEFINE_LOAD(SUFFIX, NBYTES, KIND)                                                                             \
    HEAD(BUFFER_LOAD_##SUFFIX)                                                                                        \
    {                                                                                                                 \
        return (NBYTES) == 4 ? load(w, i, NBYTES, KIND, false) : rare_load(w, i, NBYTES, KIND, false);                \
    }
#define DEFINE_STORE(SUFFIX, NBYTES, SHIFT)                                                                           \
    HEAD(BUFFER_STORE_##SUFFIX)                                                                                       \
    {                                                                                                                 \
        return (NBYTES) == 4 ? store(w, i, NBYTES, SHIFT) : rare_store(w, i, NBYTES, SHIFT);                          \
    }
SP_LOADS(DEFINE_LOAD)
SP_STORES(DEFINE_STORE)
HEAD(BUFFER_LOAD_LDS_U8) { return rare_load(w, i, 1, SP_LOAD_U8, true); }
HEAD(BUFFER_LOAD_LDS_I8) { return rare_load(w, i, 1, SP_LOAD_I8, true); }
HEAD(BUFFER_LOAD_LDS_U16) { return rare_load(w, i, 2, SP_LOAD_U16, true); }
HEAD(BUFFER_LOAD_LDS_I16) { return rare_load(w, i, 2, SP_LOAD_I16, true); }
HEAD(BUFFER_LOAD_LDS_B32) { return rare_load(w, i, 4, SP_LOAD_DWORDS, true); }
#define ENTRY_LOAD(SUFFIX, NBYTES, KIND) SP_OP_ENTRY(BUFFER_LOAD_##SUFFIX)
#define ENTRY_STORE(SUFFIX, NBYTES, SHIFT) SP_OP_ENTRY(BUFFER_STORE_##SUFFIX)

/* Executes an atomic. The register field VDATA names both the data and the result. */
static int atomic(struct sp_wave *w, const struct sp_inst *i, enum sp_atomic op, uint32_t nbytes)
{
    struct sp_atomic_lanes a;
    uint64_t va[SP_LANES], inside = sp_buffer_addresses(w, i, nbytes, va);
    sp_atomic_gather(w, i, op, nbytes, &a);
    if (w->stop) return (int)w->stop;
    struct sp_race_lanes told = {va, w->exec & inside, 4, nbytes, 0, NULL, 0};
    if (w->race && sp_race_memory(w, i, sp_race_atomic(i), &told)) return SP_WAVE_FAULT;
    for (uint64_t left = w->exec; left; left &= left - 1) {
        uint32_t l = (uint32_t)__builtin_ctzll(left);
        uint64_t data[2], old = 0;
        sp_atomic_data(&a, l, data);
        if (inside >> l & 1) {
            uint8_t *host = va[l] % nbytes ? NULL : sp_emu_at(w->tlb, va[l], SP_VM_READ | SP_VM_WRITE);
            if (!host && va[l] % nbytes)
                sp_wave_fault(w, SP_FAULT_ALIGNMENT, "%s at 0x%llx, not a multiple of %u", sp_wave_op_name(i->op),
                              (unsigned long long)va[l], nbytes);
            if (!host || sp_atomic_place(w, i, l, va[l], nbytes, host)) return sp_wave_fault_at(w, l);
            old = sp_atomic_cached(w, va[l], op, nbytes, host, data);
        }
        sp_atomic_keep(&a, l, old);
    }
    if (w->race && i->glc) sp_race_acquires(w, &told);
    w->vs_issued += !i->glc;
    sp_atomic_return(w, i, &a, i->src[1], SP_PEND_VM);
    return 0;
}

#define DEFINE_ATOMIC(SUFFIX, OP, NBYTES)                                                                             \
    HEAD(BUFFER_ATOMIC_##SUFFIX) { return atomic(w, i, SP_ATOMIC_##OP, NBYTES); }
#define ENTRY_ATOMIC(SUFFIX, OP, NBYTES) SP_OP_ENTRY(BUFFER_ATOMIC_##SUFFIX)
SP_ATOMICS(DEFINE_ATOMIC)
HEAD(BUFFER_ATOMIC_CSUB_U32) { return atomic(w, i, SP_ATOMIC_CSUB, 4); }

HEAD(BUFFER_GL0_INV)
{
    (void)i;
    sp_cache_invalidate(w->tlb, SP_GCR_GLV_INV);
    if (w->race) sp_race_invalidated(w);
    return 0;
}

HEAD(BUFFER_GL1_INV)
{
    (void)i;
    sp_cache_invalidate(w->tlb, SP_GCR_GL1_INV);
    return 0;
}

#define E SP_OP_ENTRY
const struct sp_wave_op sp_wave_buffer[] = {SP_LOADS(ENTRY_LOAD) SP_STORES(ENTRY_STORE) SP_ATOMICS(ENTRY_ATOMIC)
                                                E(BUFFER_LOAD_LDS_U8) E(BUFFER_LOAD_LDS_I8) E(BUFFER_LOAD_LDS_U16)
                                                    E(BUFFER_LOAD_LDS_I16) E(BUFFER_LOAD_LDS_B32)
                                                E(BUFFER_ATOMIC_CSUB_U32) E(BUFFER_GL0_INV) E(BUFFER_GL1_INV)
                                                    SP_OP_END};
