/* Data formats of typed buffers and images: converts bytes to four channels and back. A channel is
 * an integer, or the bits of a float. */
#ifndef SP_EMU_OPS_TEXEL_FORMAT_H
#define SP_EMU_OPS_TEXEL_FORMAT_H
#include "emu/isa/data_formats.h"
#include "emu/ops/memory.h"

struct sp_texel_format {
    struct sp_format_row row;
    uint8_t nbytes, channels;
    uint8_t align; /* bytes of one memory access, and so its alignment */
};

/* Finds a format by its number. Returns false if the format is not modelled. The format INVALID has
 * no bytes. With `image`, formats that only images have are valid too. */
bool sp_texel_format(uint32_t generation, bool image, uint32_t number, struct sp_texel_format *out);
static inline bool sp_texel_is_integer(const struct sp_texel_format *f)
{
    return f->row.number == SP_NUMBER_UINT || f->row.number == SP_NUMBER_SINT;
}

/* sp_texel_unpack converts bytes to channels. Channels that the format lacks are 0, but a missing
 * fourth channel is 1. sp_texel_pack converts channels to bytes. */
void sp_texel_unpack(const struct sp_texel_format *f, const void *bytes, uint32_t channel[4]);
void sp_texel_pack(const struct sp_texel_format *f, const uint32_t channel[4], void *bytes);

/* Rearranges the channels of a load by DST_SEL, which names the source of each component in twelve
 * bits. Returns false for a reserved selection. sp_texel_unselect does the inverse for a store. */
bool sp_texel_select(const struct sp_texel_format *f, uint32_t dst_sel, uint32_t channel[4]);
void sp_texel_unselect(uint32_t dst_sel, uint32_t channel[4]);
/* Converts a channel to the 16 bits of D16: a half float, or the low bits of an integer.
 * sp_texel_from_d16 does the inverse. */
uint32_t sp_texel_to_d16(const struct sp_texel_format *f, uint32_t channel);
uint32_t sp_texel_from_d16(const struct sp_texel_format *f, uint32_t half);
/* Writes the packed texels of a store to memory, and counts the store. First calls `raced`, which
 * checks the store for races, if the dispatch is checked for them. Returns 0, or w->stop if the
 * wave must stop. Defined in typed.c. */
int sp_texels_store(struct sp_wave *w, const struct sp_inst *i, struct sp_race_lanes *a, uint32_t (*texel)[SP_LANES],
                    int (*raced)(struct sp_wave *, const struct sp_inst *, enum sp_race_kind, const struct sp_race_lanes *));
#endif
