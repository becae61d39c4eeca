/* Images: their descriptors and the places of their texels. Only image.c knows instructions. */
#ifndef SP_EMU_OPS_TEXEL_IMAGE_H
#define SP_EMU_OPS_TEXEL_IMAGE_H
#include "format.h"
#include "swizzle.h"

/* TYPE of a descriptor */
enum sp_image_type { SP_IMAGE_NONE = 0, SP_IMAGE_1D = 8, SP_IMAGE_2D, SP_IMAGE_3D, SP_IMAGE_CUBE, SP_IMAGE_1D_ARRAY,
                     SP_IMAGE_2D_ARRAY, SP_IMAGE_2D_MSAA, SP_IMAGE_2D_MSAA_ARRAY };

struct sp_image {
    struct sp_texel_format format;
    struct sp_equation equation;
    uint64_t base;
    uint32_t type, mode, dst_sel;
    uint32_t size[3];               /* of level 0; 3D: depth, else layers, from slice 0 on */
    uint32_t first_layer;
    uint32_t base_level, last_level; /* of the view */
    uint32_t levels;                 /* of the whole image */
    /* linear, one level: texels per row if the width does not determine it; else 0 */
    uint32_t pitch;
    uint32_t texel;                  /* logarithm of a texel's bytes */
    uint32_t block[3];               /* logarithms of a block's texels */
};

/* One level of an image. */
struct sp_level {
    uint64_t offset; /* of its first block from the image's base */
    uint64_t slice;  /* bytes between slices, or between blocks' depths of slices */
    uint32_t size[3];
    uint32_t pitch;   /* blocks per row; linear: texels */
    uint32_t tail[2]; /* small levels share a block: this one's place in it */
};

/* Decodes the descriptor that `i` names. 0, or the wave's stop. */
int sp_image_of(struct sp_wave *w, const struct sp_inst *i, struct sp_image *out);
/* Sets equation and blocks of an image whose type, mode, size, levels and texel are set. False:
 * unknown mode. */
bool sp_image_place(uint32_t generation, uint32_t gb_addr_config, struct sp_image *m);
/* `level` of the whole image, not of the view. */
void sp_image_level(const struct sp_image *m, uint32_t level, struct sp_level *out);
uint64_t sp_image_texel(const struct sp_image *m, const struct sp_level *level, const uint32_t at[3]);
#endif
