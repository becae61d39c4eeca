/* Common code of LDS instructions. */
#ifndef SP_EMU_OPS_DS_H
#define SP_EMU_OPS_DS_H
#include "memory.h"

/* A fault: GDS is not modelled. */
bool sp_ds_is_gds(struct sp_wave *w, const struct sp_inst *i);
/* Results go to the registers from dst on, valid after their wait. */
void sp_ds_loaded(struct sp_wave *w, const struct sp_inst *i, uint32_t (*r)[SP_LANES], uint32_t dwords);
/* Reports an access at at[l] + offset to race/, if races are looked for; `data`: a store's
 * values. */
struct sp_ds_data {
    const uint32_t *const *from;
    uint32_t shift;
};
int sp_ds_raced(struct sp_wave *w, const struct sp_inst *i, enum sp_race_kind kind, const uint32_t *at, uint32_t offset,
                uint32_t nbytes, const struct sp_ds_data *data);
/* LGKM_CNT also counts instructions without a result: a load is complete when the count says so. */
static inline void sp_ds_stored(struct sp_wave *w) { w->lds_issued++; }
/* OFFSET0 and OFFSET1 of two addresses count elements, or 64 elements. */
static inline uint32_t sp_ds_offset(const struct sp_inst *i, uint32_t which, uint32_t unit)
{
    return ((uint32_t)i->offset >> 8 * which & 255) * unit;
}
#endif
