/* Accesses to LDS, and common code of LDS instructions. */
#ifndef SP_EMU_OPS_DS_H
#define SP_EMU_OPS_DS_H
#include "memory.h"

/* sp_lds_read and the functions after it access the group's LDS. Each returns 0, or w->stop if the
 * wave must stop. sp_lds_use reads values that decide, so unwritten bytes are a fault. */
int sp_lds_read(struct sp_wave *w, const struct sp_inst *i, uint32_t lane, uint32_t at, void *to, uint32_t nbytes);
int sp_lds_use(struct sp_wave *w, const struct sp_inst *i, uint32_t lane, uint32_t at, void *to, uint32_t nbytes);
int sp_lds_write(struct sp_wave *w, const struct sp_inst *i, uint32_t lane, uint32_t at, const void *from, uint32_t nbytes);

/* Returns true, with a fault, for a GDS instruction: GDS is not modelled. */
bool sp_ds_is_gds(struct sp_wave *w, const struct sp_inst *i);
/* Ends a load: writes the results r[0] to r[dwords - 1] to consecutive registers, from the
 * instruction's `dst` on. The registers become valid after their s_waitcnt. */
void sp_ds_loaded(struct sp_wave *w, const struct sp_inst *i, uint32_t (*r)[SP_LANES], uint32_t dwords);
/* struct sp_ds_data: the VGPRs `from` whose values a store writes to LDS, each shifted right by
 * `shift` bits first. sp_ds_raced reports the active lanes' accesses to the race check (emu/race),
 * if the dispatch is checked for races. Lane l accesses LDS at at[l] + offset. `data` is NULL
 * unless the access is a store. */
struct sp_ds_data {
    const uint32_t *const *from;
    uint32_t shift;
};
int sp_ds_raced(struct sp_wave *w, const struct sp_inst *i, enum sp_race_kind kind, const uint32_t *at, uint32_t offset,
                uint32_t nbytes, const struct sp_ds_data *data);
/* Counts a store in LGKM_CNT. LGKM_CNT also counts instructions without a result, so a wait for a
 * load needs the number of stores too. */
static inline void sp_ds_stored(struct sp_wave *w) { w->lds_issued++; }
/* Returns one of the two offsets of an instruction with two addresses, in bytes. OFFSET0 and
 * OFFSET1 count elements; in the instructions with STRIDE64 in their name they count blocks of 64
 * elements. `unit` is the size in bytes of such an element or block. */
static inline uint32_t sp_ds_offset(const struct sp_inst *i, uint32_t which, uint32_t unit)
{
    return ((uint32_t)i->offset >> 8 * which & 255) * unit;
}
#endif
