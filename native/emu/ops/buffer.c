/* MUBUF: untyped buffers. The buffer descriptor determines the addresses ("Memory Buffer
 * Instructions", RDNA2 and RDNA3 ISA documents): linear or swizzled, range-checked by OOB_SELECT.
 * Loads out of range give 0, stores out of range do nothing. RADV reads arrays by these
 * instructions; clang reads scratch by them on gfx10.
 *
 * Formatted access is in texel/typed.c; TFE is not modelled. A load goes to LDS with gfx10's LDS
 * bit, or as gfx11's BUFFER_LOAD_LDS_*. */
#include "buffer.h"
#include "emu/memory/unit.h"
#include "ds.h"
#include "families.h"

#define HEAD(NAME) static int NAME(struct sp_wave *w, const struct sp_inst *i)

struct resource {
    uint64_t base;
    uint32_t stride, records;
    /* number of lanes whose data are interleaved in one block of a swizzled buffer */
    uint32_t index_stride;
    uint32_t oob, element_size;
    bool swizzled, adds_tid;
};

/* A buffer is swizzled only if the access has an index: RADV gives descriptors of shader constants
 * the upper half of a program counter, whose bits are STRIDE and SWIZZLE_ENABLE, and reads them
 * linearly (visit_load_constant of ACO). "Swizzling requires an index source" (rdna_buffer_address
 * of rocjitsu). "Swizzled buffer addressing seems to be broken on GFX11 without the idxen bit"
 * (visit_load_buffer of ACO). */
static struct resource resource_of(struct sp_wave *w, const struct sp_inst *i)
{
    uint64_t low = sp_s64(w, i, i->sbase), high = sp_s64(w, i, i->sbase + 2u);
    uint32_t word1 = (uint32_t)(low >> 32), word3 = (uint32_t)(high >> 32);
    uint32_t swizzle = w->generation == 10 ? word1 >> 31 : word1 >> 30;
    struct resource r = {.base = (uint64_t)((int64_t)(low << 16) >> 16), .stride = word1 >> 16 & 0x3FFF,
                         .records = (uint32_t)high, .index_stride = 8u << (word3 >> 21 & 3), .oob = word3 >> 28 & 3,
                         .element_size = swizzle == 3 ? 16 : 4, .adds_tid = (word3 >> 23 & 1) != 0};
    r.swizzled = swizzle != 0 && (i->idxen || r.adds_tid);
    return r;
}

/* Offset of a byte from the base of a swizzled buffer ("Swizzled Buffer Addressing", RDNA2 and
 * RDNA3 ISA documents) */
static uint64_t swizzled_offset(const struct resource *rsrc, uint64_t index, uint64_t offset)
{
    uint64_t size = rsrc->element_size;
    return ((index / rsrc->index_stride) * rsrc->stride + offset / size * size) * rsrc->index_stride +
           index % rsrc->index_stride * size + offset % size;
}

/* Range check of `nbytes` by OOB_SELECT. Mode 3 looks at the whole offset, which includes SOFFSET;
 * a swizzled buffer is checked by its swizzled address on gfx10, by index and offset on gfx11
 * (ac_set_buf_desc_word3 of Mesa). */
static bool is_inside(const struct resource *rsrc, uint32_t generation, uint64_t index, uint64_t offset, uint32_t soffset,
                      uint32_t nbytes)
{
    bool by_record = index < rsrc->records && (rsrc->stride == 0 || offset + nbytes <= rsrc->stride);
    switch (rsrc->oob) {
    case 0: return by_record;
    case 1: return index < rsrc->records;
    case 2: return rsrc->records != 0;
    default:
        if (!rsrc->swizzled) return offset + soffset + nbytes <= rsrc->records;
        if (generation >= 11 && rsrc->stride) return by_record;
        return swizzled_offset(rsrc, index, offset) + soffset + nbytes <= rsrc->records;
    }
}

uint64_t sp_buffer_addresses(struct sp_wave *w, const struct sp_inst *i, uint32_t nbytes, uint64_t *va, uint64_t *inside)
{
    struct resource rsrc = resource_of(w, i);
    uint32_t soffset = sp_s32(w, i, i->soffset), which = 0, dwords = inside ? (nbytes + 3) / 4 : 1;
    const uint32_t *index = i->idxen ? sp_vgpr(w, i, i->src[0] + which++) : NULL;
    const uint32_t *offset = i->offen ? sp_vgpr(w, i, i->src[0] + which) : NULL;
    uint64_t any = 0;
    for (uint32_t k = 0; inside && k < dwords; k++) inside[k] = 0;
    for (uint32_t l = 0; l < w->lanes; l++) {
        uint64_t n = (uint64_t)(index ? index[l] : 0) + (rsrc.adds_tid ? l : 0);
        /* the sum wraps around at 32 bits (addr_calc_buffer.h of rocjitsu) */
        uint64_t o = (uint32_t)((offset ? offset[l] : 0) + (uint32_t)i->offset);
        for (uint32_t k = 0; k < dwords; k++) {
            uint64_t ok = is_inside(&rsrc, w->generation, n, o + 4 * k, soffset, inside && nbytes > 4 ? 4 : nbytes);
            any |= ok << l;
            if (inside) inside[k] |= ok << l;
        }
        va[l] = rsrc.base + soffset + (rsrc.swizzled ? swizzled_offset(&rsrc, n, o) : o + n * rsrc.stride);
    }
    if (i->tfe) sp_wave_fault(w, SP_FAULT_OPERAND, "%s: TFE is not modelled", sp_wave_op_name(i->op));
    return any;
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
    return rsrc.swizzled && rsrc.element_size == 4 ? 4u * rsrc.index_stride : 4;
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

/* Calls `each` for the accesses of a load or store whose dwords have their own range checks: once
 * for all dwords if they are in range for the same lanes, else once per dword. */
SP_RARE int each_part(struct sp_wave *w, const struct sp_inst *i, uint32_t nbytes, const uint64_t *va, const uint64_t *inside,
                      int (*each)(struct sp_wave *, const struct sp_inst *, uint32_t first, const struct sp_touched *, void *),
                      void *with)
{
    uint32_t dwords = (nbytes + 3) / 4, k = 1;
    uint64_t step = sp_buffer_step(w, i), shifted[SP_LANES], slot = scratch_slot(w, i);
    while (k < dwords && inside[k] == inside[0]) k++;
    bool same = k == dwords;
    for (k = 0; k < (same ? 1 : dwords); k++) {
        for (uint32_t l = 0; k > 0 && l < w->lanes; l++) shifted[l] = va[l] + k * step;
        struct sp_touched t = {SP_PLACE_MEMORY, same ? nbytes : 4, k > 0 ? shifted : va, w->exec & inside[k], step, slot};
        int rc = each(w, i, k, &t, with);
        if (rc) return rc;
    }
    return 0;
}

struct undefined {
    uint64_t lanes[4];
    uint8_t why;
};

static int find_poison(struct sp_wave *w, const struct sp_inst *i, uint32_t first, const struct sp_touched *t, void *to)
{
    struct undefined *u = to;
    uint8_t why = sp_poison_find(w, i, (t->nbytes + 3) / 4, t, u->lanes + first);
    u->why = u->why ? u->why : why;
    return 0;
}

/* The last step of a load that may have read poison, or whose data go to LDS: records which
 * registers or LDS bytes are poison. */
SP_RARE int rare_end(struct sp_wave *w, const struct sp_inst *i, uint32_t nbytes, const uint64_t *va, const uint64_t *inside,
                     const uint32_t *for_lds)
{
    struct undefined u = {{0}, 0};
    each_part(w, i, nbytes, va, inside, find_poison, &u);
    if (for_lds) return sp_buffer_to_lds(w, i, for_lds, u.lanes[0]);
    sp_wave_poison_begins(w, SP_PEND_VM, i->dst, (nbytes + 3) / 4, u.lanes, u.why);
    return 0;
}

static int keep_poison(struct sp_wave *w, const struct sp_inst *i, uint32_t first, const struct sp_touched *t, void *with)
{
    (void)with;
    sp_poison_stored(w, i->src[1] + first, t);
    return 0;
}

struct raced {
    enum sp_race_kind kind;
    const uint32_t *const *from;
    uint32_t shift;
};

static int check_races(struct sp_wave *w, const struct sp_inst *i, uint32_t first, const struct sp_touched *t, void *with)
{
    const struct raced *r = with;
    struct sp_race_lanes a = {t->va, t->lanes, t->step, t->nbytes, 0, r->from ? r->from + first : NULL, r->shift};
    return sp_buffer_raced(w, i, r->kind, &a);
}

static bool can_reach_lds(uint32_t nbytes, enum sp_load kind) { return nbytes <= 4 && kind <= SP_LOAD_DWORDS; }

/* Loads and stores of several dwords are checked dword by dword ("Load/store-DWORD-x{2,3,4} perform
 * range-check per component", RDNA3 and RDNA4 ISA documents). */
SP_INLINE void addresses(struct sp_wave *w, const struct sp_inst *i, uint32_t nbytes, uint64_t *va, uint64_t *inside)
{
    if (nbytes > 4)
        sp_buffer_addresses(w, i, nbytes, va, inside);
    else
        inside[0] = sp_buffer_addresses(w, i, nbytes, va, NULL);
}

SP_INLINE int load(struct sp_wave *w, const struct sp_inst *i, uint32_t nbytes, enum sp_load kind, bool to_lds)
{
    uint64_t va[SP_LANES], inside[4], step = sp_buffer_step(w, i);
    addresses(w, i, nbytes, va, inside);
    uint32_t r[4][SP_LANES], dwords = (nbytes + 3) / 4, piece = nbytes < 4 ? nbytes : 4;
    struct sp_reach reach = sp_reach_of(w, sp_wave_load_access(w, i));
    if (SP_UNLIKELY(i->lds && !can_reach_lds(nbytes, kind)))
        sp_wave_fault(w, SP_FAULT_OPERAND, "%s: only loads of one dword or less reach LDS", sp_wave_op_name(i->op));
    if (SP_UNLIKELY(w->stop)) return (int)w->stop;
    for (uint64_t left = w->exec; left; left &= left - 1) {
        uint32_t l = (uint32_t)__builtin_ctzll(left);
        for (uint32_t k = 0; k < dwords; k++) {
            uint32_t data = 0;
            if ((inside[k] >> l & 1) && sp_reach_read(&reach, va[l] + k * step, &data, piece)) return sp_wave_fault_at(w, l);
            r[k][l] = sp_loaded(kind, data, w->v[i->dst & 255][l]);
        }
    }
    if (w->race) {
        struct raced a = {sp_race_load(reach.access), NULL, 0};
        if (each_part(w, i, nbytes, va, inside, check_races, &a)) return SP_WAVE_FAULT;
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
    uint64_t va[SP_LANES], inside[4], step = sp_buffer_step(w, i);
    addresses(w, i, nbytes, va, inside);
    uint32_t dwords = (nbytes + 3) / 4, piece = nbytes < 4 ? nbytes : 4;
    struct sp_reach reach = sp_reach_of(w, SP_VM_WRITE);
    const uint32_t *from[4];
    for (uint32_t k = 0; k < dwords; k++) from[k] = sp_vgpr_stored(w, i, SP_SRC_VGPR + ((i->src[1] + k) & 255));
    if (SP_UNLIKELY(w->stop)) return (int)w->stop;
    if (w->race) {
        struct raced a = {SP_RACE_STORE, from, shift};
        if (each_part(w, i, nbytes, va, inside, check_races, &a)) return SP_WAVE_FAULT;
    }
    for (uint64_t left = w->exec; left; left &= left - 1) {
        uint32_t l = (uint32_t)__builtin_ctzll(left);
        for (uint32_t k = 0; k < dwords; k++) {
            uint32_t data = from[k][l] >> shift;
            if ((inside[k] >> l & 1) && sp_reach_write(&reach, va[l] + k * step, &data, piece)) return sp_wave_fault_at(w, l);
        }
    }
    w->vs_issued++;
    if (SP_UNLIKELY(w->scratch_written || w->poison_seen)) each_part(w, i, nbytes, va, inside, keep_poison, NULL);
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
    uint64_t va[SP_LANES], inside = sp_buffer_addresses(w, i, nbytes, va, NULL);
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
