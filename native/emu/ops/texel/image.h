/* Images: their descriptors and the addresses of their texels. Instructions are in image.c. */
#ifndef SP_EMU_OPS_TEXEL_IMAGE_H
#define SP_EMU_OPS_TEXEL_IMAGE_H
#include "format.h"
#include "swizzle.h"

/* the field TYPE of a descriptor */
enum sp_image_type { SP_IMAGE_NONE = 0, SP_IMAGE_1D = 8, SP_IMAGE_2D, SP_IMAGE_3D, SP_IMAGE_CUBE, SP_IMAGE_1D_ARRAY,
                     SP_IMAGE_2D_ARRAY, SP_IMAGE_2D_MSAA, SP_IMAGE_2D_MSAA_ARRAY };

struct sp_image {
    struct sp_texel_format format;
    struct sp_equation equation;
    uint64_t base;
    uint32_t type, mode, dst_sel;
    /* size of mip level 0: width, height, and depth of a 3D image; for other images, size[2] is the
     * number of the view's last layer + 1 */
    uint32_t size[3];
    uint32_t first_layer;
    uint32_t base_level, last_level; /* first and last mip level of the view */
    uint32_t levels;                 /* number of mip levels of the whole image */
    /* texels from one row to the next, if the descriptor of a linear image of one mip level gives
     * this number; 0: the width determines it */
    uint32_t pitch;
    uint32_t texel;                  /* logarithm to base 2 of a texel's bytes */
    /* logarithms to base 2 of a block's width, height and depth in texels */
    uint32_t block[3];
};

/* One mip level of an image. */
struct sp_level {
    uint64_t offset; /* offset of the level's first block from the image's base */
    /* bytes from one slice to the next; if blocks have a depth, from one layer of blocks to the
     * next */
    uint64_t slice;
    uint32_t size[3];
    uint32_t pitch;   /* blocks per row; in a linear image, texels per row */
    /* coordinates x and y of the first texel of a small level in the block that small levels
     * share */
    uint32_t tail[2];
};

/* Decodes the descriptor that `i` names. Returns 0, or w->stop if the wave must stop. */
int sp_image_of(struct sp_wave *w, const struct sp_inst *i, struct sp_image *out);
/* Sets the swizzle equation and the block sizes of an image whose type, mode, size, levels and
 * texel are set. Returns false for an unknown mode. */
bool sp_image_place(uint32_t generation, uint32_t gb_addr_config, struct sp_image *m);
/* Describes level `level` of the whole image, not of the view. */
void sp_image_level(const struct sp_image *m, uint32_t level, struct sp_level *out);
uint64_t sp_image_texel(const struct sp_image *m, const struct sp_level *level, const uint32_t at[3]);
#endif
