/* A wave's accesses to data that were never written. A load of such data makes its registers
 * poison. A store of poison makes the stored dwords poison. */
#ifndef SP_EMU_OPS_POISON_H
#define SP_EMU_OPS_POISON_H
#include "emu/wave/wave.h"

/* Upper halves of the FLAT addresses that are in LDS (SHARED) and in scratch (PRIVATE). */
enum { SP_SHARED_HIGH = 0x20000000, SP_PRIVATE_HIGH = 0x10000000 };

enum sp_place { SP_PLACE_MEMORY, SP_PLACE_LDS, SP_PLACE_SCRATCH, SP_PLACE_FLAT };

/* The bytes that an instruction has just loaded or stored: dword k of lane l at va[l] + k * step.
 * The functions below look for poison in them. */
struct sp_touched {
    /* SCRATCH: `va` are offsets in the lane's own memory. FLAT: the apertures decide whether `va`
     * is in LDS, scratch or memory. */
    enum sp_place place;
    uint32_t nbytes;      /* bytes that the instruction accesses for one lane */
    const uint64_t *va;
    uint64_t lanes, step;
    /* if `place` is MEMORY and the access uses a scratch descriptor: address of this wave's
     * scratch; else 0 */
    uint64_t slot;
};

/* Call it for a load that has set w->poison_seen. The load has written `dwords` registers, `dst`
 * and the following ones. Marks as poison those of them that received poison. */
int sp_poison_loaded(struct sp_wave *w, const struct sp_inst *i, enum sp_pending_kind kind, uint32_t dst, uint32_t dwords,
                     const struct sp_touched *touched);
/* Sets undefined[k] to the mask of the lanes whose dword k is poison, for each k < dwords. Returns
 * the number of the poison's origin (struct sp_origin), or 0 if nothing is poison. */
uint8_t sp_poison_find(struct sp_wave *w, const struct sp_inst *i, uint32_t dwords, const struct sp_touched *touched,
                       uint64_t *undefined);
/* Returns the number of the origin of poison that a load found at `at`. If memory was written after
 * a cache fetched it, the stale cache is the origin. */
uint8_t sp_poison_origin(struct sp_wave *w, const struct sp_inst *i, enum sp_from from, uint64_t at, uint32_t access);
/* Call it for a load of texels. Marks the loaded registers as poison in the lanes `undefined`. The
 * origin of this poison is the texel of the first such lane. */
void sp_texels_begin(struct sp_wave *w, const struct sp_inst *i, uint32_t dwords, uint64_t undefined, const uint64_t *va);
/* Call it for a store of register `src` and the following ones, which hold undefined values. Marks
 * the stored dwords as poison in memory. */
void sp_poison_stored(struct sp_wave *w, uint32_t src, const struct sp_touched *touched);

/* Returns the number of the bit in w->scratch_written that stands for a dword of a lane's
 * scratch. */
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
