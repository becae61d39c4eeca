/* Scalar memory: loads through the scalar cache, 4-byte aligned, into SGPRs. They complete in any
 * order. */
#include "families.h"
#include "memory.h"
#include "emu/memory/unit.h"

#define HEAD(NAME) static int NAME(struct sp_wave *w, const struct sp_inst *i)

static uint64_t offset_of(struct sp_wave *w, const struct sp_inst *i)
{
    uint64_t offset = (uint64_t)(int64_t)i->offset;
    return i->saddr_null ? offset : offset + sp_s32(w, i, i->soffset);
}

static int put(struct sp_wave *w, const struct sp_inst *i, const uint32_t *data, uint32_t count)
{
    for (uint32_t k = 0; k < count; k++) sp_put_s32(w, i, i->dst == SP_SRC_NULL ? SP_SRC_NULL : i->dst + k, data[k]);
    if (!w->stop) sp_wave_load_begins(w, SP_PEND_SMEM, i->dst, count);
    return (int)w->stop;
}

/* Returns SP_VM_* bits that say which caches a scalar load uses. GLC makes the load bypass the
 * scalar cache, and also GL1 where a vector load bypasses it. */
static uint32_t scalar_access(const struct sp_wave *w, const struct sp_inst *i)
{
    return i->glc ? sp_wave_load_access(w, i) : SP_VM_READ | SP_VM_SCALAR;
}

/* Writes `count` loaded dwords to SGPRs. Only the first `inside` dwords come from memory. The SGPRs
 * of dwords that were never written become poison. */
static int put_loaded(struct sp_wave *w, const struct sp_inst *i, uint64_t va, const uint32_t *data, uint32_t count,
                      uint32_t inside)
{
    uint64_t undefined[16], at = sp_emu_poison_of(w->tlb, va, data, 4u * inside);
    if (SP_LIKELY(at == SP_NO_POISON)) return put(w, i, data, count);
    for (uint32_t k = 0; k < count; k++) {
        undefined[k] = k < inside && sp_emu_poison_of(w->tlb, va + 4u * k, &data[k], 4) != SP_NO_POISON;
        sp_put_s32(w, i, i->dst == SP_SRC_NULL ? SP_SRC_NULL : i->dst + k, data[k]);
    }
    if (!w->stop)
        sp_wave_poison_begins(w, SP_PEND_SMEM, i->dst, count, undefined,
                              sp_poison_origin(w, i, SP_FROM_MEMORY, at, scalar_access(w, i)));
    return (int)w->stop;
}

static int raced(struct sp_wave *w, const struct sp_inst *i, uint64_t va, uint32_t count)
{
    struct sp_race_lanes a = {&va, 1, 4, 4 * count, 0, NULL, 0};
    return w->race && count ? sp_race_memory(w, i, sp_race_load(scalar_access(w, i)), &a) : 0;
}

static int load(struct sp_wave *w, const struct sp_inst *i, uint32_t count)
{
    uint32_t data[16];
    uint64_t va = (sp_s64(w, i, i->sbase) + offset_of(w, i)) & ~UINT64_C(3);
    if (w->stop) return (int)w->stop;
    if (sp_emu_read_as(w->tlb, va, data, 4u * count, scalar_access(w, i))) return sp_wave_fault_at(w, 0);
    if (raced(w, i, va, count)) return SP_WAVE_FAULT;
    return put_loaded(w, i, va, data, count, count);
}

/* Loads `count` dwords of a buffer. Dwords beyond the buffer's end read as 0. NUM_RECORDS is the
 * buffer's length in bytes, or in records of STRIDE bytes if STRIDE is not 0. */
static int load_buffer(struct sp_wave *w, const struct sp_inst *i, uint32_t count)
{
    uint32_t data[16] = {0};
    uint64_t low = sp_s64(w, i, i->sbase), high = sp_s64(w, i, i->sbase + 2u);
    uint64_t base = (uint64_t)((int64_t)(low << 16) >> 16), stride = low >> 48 & 0x3FFF;
    uint64_t range = (high & UINT32_MAX) * (stride ? stride : 1), offset = offset_of(w, i) & ~UINT64_C(3);
    uint64_t inside = offset < range ? (range - offset) / 4 : 0;
    if (inside > count) inside = count;
    if (w->stop) return (int)w->stop;
    if (sp_emu_read_as(w->tlb, base + offset, data, 4 * inside, scalar_access(w, i))) return sp_wave_fault_at(w, 0);
    if (raced(w, i, base + offset, (uint32_t)inside)) return SP_WAVE_FAULT;
    return put_loaded(w, i, base + offset, data, count, (uint32_t)inside);
}

#define LOADS(X) X(B32, 1) X(B64, 2) X(B128, 4) X(B256, 8) X(B512, 16)
#define DEFINE_LOAD(SUFFIX, COUNT)                                                                                    \
    HEAD(S_LOAD_##SUFFIX) { return load(w, i, COUNT); }                                                               \
    HEAD(S_BUFFER_LOAD_##SUFFIX) { return load_buffer(w, i, COUNT); }
#define ENTRY_LOAD(SUFFIX, COUNT) SP_OP_ENTRY(S_LOAD_##SUFFIX) SP_OP_ENTRY(S_BUFFER_LOAD_##SUFFIX)
LOADS(DEFINE_LOAD)

static int clock_value(struct sp_wave *w, const struct sp_inst *i)
{
    uint64_t now = sp_wave_realtime(w);
    uint32_t data[2] = {(uint32_t)now, (uint32_t)(now >> 32)};
    return put(w, i, data, 2);
}

HEAD(S_MEMTIME) { return clock_value(w, i); }
HEAD(S_MEMREALTIME) { return clock_value(w, i); }

HEAD(S_DCACHE_INV)
{
    (void)i;
    sp_cache_invalidate(w->tlb, SP_GCR_GLK_INV);
    if (w->race) sp_race_invalidated(w);
    return 0;
}

HEAD(S_GL1_INV)
{
    (void)i;
    sp_cache_invalidate(w->tlb, SP_GCR_GL1_INV);
    return 0;
}

/* Instructions that prefetch address translations, with no visible effect. */
HEAD(S_ATC_PROBE)
{
    (void)w, (void)i;
    return 0;
}
HEAD(S_ATC_PROBE_BUFFER) { return S_ATC_PROBE(w, i); }

#define E SP_OP_ENTRY
const struct sp_wave_op sp_wave_smem[] = {LOADS(ENTRY_LOAD) E(S_MEMTIME) E(S_MEMREALTIME) E(S_DCACHE_INV) E(S_GL1_INV)
                                              E(S_ATC_PROBE) E(S_ATC_PROBE_BUFFER) SP_OP_END};
