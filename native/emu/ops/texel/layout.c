/* The places of an image's texels: levels, blocks, slices. In memory the smallest level comes
 * first. In tiled images the smallest levels share a block, the mip tail. Source: AMD's address
 * library (Mesa src/amd/addrlib, ComputeSurfaceInfo and ComputeSurfaceAddrFromCoord of Gfx10Lib and
 * Gfx11Lib). */
#include "image.h"
#include "include/sp_emu_wave.h"

bool sp_image_place(uint32_t generation, uint32_t gb_addr_config, struct sp_image *m)
{
    /* log2 of width, height and depth in texels of a 3D block of 1 KiB. The rows are for texels of
     * 1, 2, 4, 8 and 16 bytes. */
    static const uint8_t volume[5][3] = {{4, 3, 3}, {3, 3, 3}, {3, 3, 2}, {3, 2, 2}, {2, 2, 2}};
    struct sp_equation *e = &m->equation;
    if (m->mode == 0) return true;
    if (!sp_swizzle_equation(generation, m->mode, m->type == SP_IMAGE_3D, m->texel, gb_addr_config, e)) return false;
    /* Depth images with several mip levels are not modelled. Because of HTILE, their mip tail
     * begins at another level than first_in_tail returns. */
    if ((m->mode & 3) == 0 && m->levels > 1) return false;
    m->block[0] = (e->block - m->texel + 1) / 2;
    m->block[1] = e->block - m->texel - m->block[0];
    if (!e->thick) return true;
    uint32_t more = e->block - 10;
    m->block[0] = volume[m->texel][0] + more / 3;
    m->block[1] = volume[m->texel][1] + more / 3 + more % 3 / 2;
    m->block[2] = volume[m->texel][2] + more / 3 + (more % 3 != 0);
    return true;
}

/* `size` is the size of mip level 0 in one dimension, in texels. texels_of returns the size of mip
 * level `level`. room_of returns the size that the level has in memory, which is rounded up. */
static uint32_t texels_of(uint32_t size, uint32_t level) { return size >> level ? size >> level : 1; }
static uint32_t room_of(uint32_t size, uint32_t level) { return (size + (1u << level) - 1) >> level; }

static uint32_t blocks(uint32_t size, uint32_t log2) { return (size + (1u << log2) - 1) >> log2; }

static void linear_level(const struct sp_image *m, uint32_t level, struct sp_level *out)
{
    uint32_t align = 256u >> m->texel;
    for (uint32_t k = m->levels; k-- > 0;) {
        uint32_t pitch = (room_of(m->size[0], k) + align - 1) / align * align;
        if (m->pitch) pitch = m->pitch;
        if (k == level) {
            out->offset = out->slice;
            out->pitch = pitch;
        }
        out->slice += (uint64_t)pitch * room_of(m->size[1], k) << m->texel;
    }
}

/* Returns the first level in the mip tail, or m->levels if there is none. `*most` is the number of
 * levels that fit into the tail. */
static uint32_t first_in_tail(const struct sp_image *m, uint32_t *most)
{
    const struct sp_equation *e = &m->equation;
    uint32_t width = m->block[0], height = m->block[1], log2 = e->thick ? e->block - (e->block - 8) / 3 : e->block;
    *most = 0;
    if (m->levels == 1 || e->block == 8) return m->levels;
    *most = log2 <= 11 ? 1 + (1u << (log2 - 9)) : log2 - 4;
    if (!e->thick || e->block % 3 == 1)
        width--;
    else if (e->block % 3 == 0)
        height--;
    for (uint32_t k = 0; k < m->levels; k++)
        if (room_of(m->size[0], k) <= 1u << width && room_of(m->size[1], k) <= 1u << height && m->levels - k <= *most)
            return k;
    return m->levels;
}

/* Collects every second bit of an offset in the mip tail, from bit `low` on, in one number. */
static uint32_t every_other(uint32_t offset, uint32_t low)
{
    uint32_t found = 0;
    for (uint32_t k = 0; k < 6; k++) found |= (offset >> (low + 2 * k) & 1) << k;
    return found;
}

/* Places a level in the mip tail. Levels of the tail begin at micro blocks of 256 bytes. */
static void place_in_tail(const struct sp_image *m, uint32_t rank, uint32_t most, struct sp_level *out)
{
    static const uint8_t thin[5][2] = {{4, 4}, {4, 3}, {3, 3}, {3, 2}, {2, 2}};
    static const uint8_t thick[5][2] = {{3, 2}, {2, 2}, {2, 2}, {2, 1}, {1, 1}};
    const uint8_t *micro = m->equation.thick ? thick[m->texel] : thin[m->texel];
    uint32_t place = most - 1 - rank, offset = place > 6 ? 16u << place : place << 8;
    out->tail[0] = every_other(offset, 9) << micro[0];
    out->tail[1] = every_other(offset, 8) << micro[1];
}

static void tiled_level(const struct sp_image *m, uint32_t level, struct sp_level *out)
{
    uint32_t most, tail = first_in_tail(m, &most), block = m->equation.block;
    if (tail < m->levels) out->slice = UINT64_C(1) << block;
    for (uint32_t k = tail; k-- > 0;) {
        uint32_t across = blocks(room_of(m->size[0], k), m->block[0]), down = blocks(room_of(m->size[1], k), m->block[1]);
        if (k == level) {
            out->offset = out->slice;
            out->pitch = across;
        }
        out->slice += (uint64_t)across * down << block;
    }
    if (level < tail) return;
    out->pitch = 1;
    place_in_tail(m, level - tail, most, out);
}

void sp_image_level(const struct sp_image *m, uint32_t level, struct sp_level *out)
{
    memset(out, 0, sizeof *out);
    out->size[0] = texels_of(m->size[0], level);
    out->size[1] = texels_of(m->size[1], level);
    out->size[2] = m->type == SP_IMAGE_3D ? texels_of(m->size[2], level) : m->size[2];
    if (m->mode)
        tiled_level(m, level, out);
    else
        linear_level(m, level, out);
}

uint64_t sp_image_texel(const struct sp_image *m, const struct sp_level *level, const uint32_t at[3])
{
    const struct sp_equation *e = &m->equation;
    if (!m->mode)
        return m->base + level->offset + level->slice * at[2] + (((uint64_t)at[1] * level->pitch + at[0]) << m->texel);
    uint64_t low = e->xored ? m->base & ((1u << e->block) - 1) : 0;
    uint64_t index = (uint64_t)(at[1] >> m->block[1]) * level->pitch + (at[0] >> m->block[0]);
    const uint32_t in[3] = {at[0] + level->tail[0], at[1] + level->tail[1], at[2]};
    return m->base - low + level->offset + level->slice * (at[2] >> m->block[2]) + (index << e->block) +
           (sp_swizzle_offset(e, in) ^ low);
}

int64_t sp_emu_image_offset(const uint32_t place[13])
{
    struct sp_image image = {.type = place[3] == 3 ? SP_IMAGE_3D : SP_IMAGE_2D_ARRAY,
                             .mode = place[2],
                             .texel = place[4],
                             .levels = place[8]};
    struct sp_level level;
    memcpy(image.size, place + 5, sizeof image.size);
    if (!sp_image_place(place[0], place[1], &image)) return -1;
    sp_image_level(&image, place[9], &level);
    return (int64_t)sp_image_texel(&image, &level, place + 10);
}
