/* A wave's accesses to unwritten data: loads bring poison, stores keep it. */
#ifndef SP_EMU_OPS_POISON_H
#define SP_EMU_OPS_POISON_H
#include "emu/wave/wave.h"

/* Upper halves of FLAT addresses: LDS, scratch. */
enum { SP_SHARED_HIGH = 0x20000000, SP_PRIVATE_HIGH = 0x10000000 };

enum sp_place { SP_PLACE_MEMORY, SP_PLACE_LDS, SP_PLACE_SCRATCH, SP_PLACE_FLAT };

/* The bytes that an instruction has just loaded or stored, for a second look: dword k of lane l at
 * va[l] + k * step. */
struct sp_touched {
    /* SCRATCH: `va` are offsets in the lane's own memory; FLAT: decided by apertures */
    enum sp_place place;
    uint32_t nbytes;      /* of a lane */
    const uint64_t *va;
    uint64_t lanes, step;
    uint64_t slot;        /* MEMORY: beginning of this wave's scratch if a scratch descriptor led there; else 0 */
};

/* Ends a load after w->poison_seen: some of its `dwords` registers from `dst` on may be poison. */
int sp_poison_loaded(struct sp_wave *w, const struct sp_inst *i, enum sp_pending_kind kind, uint32_t dst, uint32_t dwords,
                     const struct sp_touched *touched);
/* Finds the poisoned lanes of each dword. Returns the number of their origin; 0: none. */
uint8_t sp_poison_find(struct sp_wave *w, const struct sp_inst *i, uint32_t dwords, const struct sp_touched *touched,
                       uint64_t *undefined);
/* The origin of poison that a load found at `at`. If memory was written after a cache took it, that
 * is the origin. */
uint8_t sp_poison_origin(struct sp_wave *w, const struct sp_inst *i, enum sp_from from, uint64_t at, uint32_t access);
/* Ends a load of texels: marks all registers of these lanes as poison, with the origin of the first
 * one's texel. */
void sp_texels_begin(struct sp_wave *w, const struct sp_inst *i, uint32_t dwords, uint64_t undefined, const uint64_t *va);
/* Ends a store of undefined registers, `src` and the following ones. */
void sp_poison_stored(struct sp_wave *w, uint32_t src, const struct sp_touched *touched);

/* Bit number of a dword in this wave's scratch. */
static inline uint64_t sp_scratch_bit(const struct sp_wave *w, uint64_t offset, uint32_t lane)
{
    return offset / 4 * w->lanes + lane;
}
static inline int sp_scratch_is_written(const struct sp_wave *w, uint64_t bit)
{
    return w->scratch_written[bit / 64] >> bit % 64 & 1;
}
static inline void sp_scratch_write(struct sp_wave *w, uint64_t bit, int written)
{
    uint64_t one = UINT64_C(1) << bit % 64, *at = &w->scratch_written[bit / 64];
    *at = written ? *at | one : *at & ~one;
}
#endif
