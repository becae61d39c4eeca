/* Data formats of typed buffers and images: bytes to four channels and back. A channel is a float's
 * bits or an integer. */
#ifndef SP_EMU_OPS_TEXEL_FORMAT_H
#define SP_EMU_OPS_TEXEL_FORMAT_H
#include "emu/isa/data_formats.h"
#include "emu/ops/memory.h"

struct sp_texel_format {
    struct sp_format_row row;
    uint8_t nbytes, channels;
    uint8_t align; /* bytes of the unit of memory access */
};

/* False: the number is not modelled. INVALID has no bytes. `image`: formats of images only are
 * valid too. */
bool sp_texel_format(uint32_t generation, bool image, uint32_t number, struct sp_texel_format *out);
static inline bool sp_texel_is_integer(const struct sp_texel_format *f)
{
    return f->row.number == SP_NUMBER_UINT || f->row.number == SP_NUMBER_SINT;
}

/* Missing channels are 0, a missing last one is 1. */
void sp_texel_unpack(const struct sp_texel_format *f, const void *bytes, uint32_t channel[4]);
void sp_texel_pack(const struct sp_texel_format *f, const uint32_t channel[4], void *bytes);

/* DST_SEL, twelve bits: the source of each component of a load; a store does the inverse. False: a
 * reserved selection. */
bool sp_texel_select(const struct sp_texel_format *f, uint32_t dst_sel, uint32_t channel[4]);
void sp_texel_unselect(uint32_t dst_sel, uint32_t channel[4]);
/* Halves for D16: a half float, or the low bits of an integer; and back. */
uint32_t sp_texel_to_d16(const struct sp_texel_format *f, uint32_t channel);
uint32_t sp_texel_from_d16(const struct sp_texel_format *f, uint32_t half);
/* typed.c: ends a store of packed texels; `raced` reports it to race/. 0, or the wave's stop. */
int sp_texels_store(struct sp_wave *w, const struct sp_inst *i, struct sp_race_lanes *a, uint32_t (*texel)[SP_LANES],
                    int (*raced)(struct sp_wave *, const struct sp_inst *, enum sp_race_kind, const struct sp_race_lanes *));
#endif
