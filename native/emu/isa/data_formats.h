/* The struct of the generated table of data formats (native/emu/gen/data_formats.c). */
#ifndef SP_EMU_DATA_FORMATS_H
#define SP_EMU_DATA_FORMATS_H
#include <stdint.h>

enum sp_number { SP_NUMBER_UNORM, SP_NUMBER_SNORM, SP_NUMBER_USCALED, SP_NUMBER_SSCALED, SP_NUMBER_UINT, SP_NUMBER_SINT,
                 SP_NUMBER_FLOAT, SP_NUMBER_SRGB, SP_NUMBER_SHARED_EXPONENT };

struct sp_format_row {
    uint8_t bits[4]; /* of each channel, the least significant first */
    uint8_t number;  /* of sp_number */
};
/* gen/data_formats.c: indexed by the number in a descriptor or an MTBUF instruction; [0] is
 * INVALID. */
extern const struct sp_format_row sp_formats_gfx10[], sp_formats_gfx11[];
extern const uint32_t sp_formats_gfx10_count, sp_formats_gfx11_count;
#endif
