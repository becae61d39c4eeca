/* Decodes the image descriptor (T#) of gfx10.3 and gfx11. Sources: "Image Resource" of AMD's RDNA2
 * and RDNA3 ISA documents; for differences between the generations, PAL's sq_img_rsrc_t and Mesa's
 * ac_descriptors.c. */
#include "image.h"

static uint32_t bits(uint32_t word, unsigned low, unsigned width) { return word >> low & ((1u << width) - 1); }

static int lacks(struct sp_wave *w, const struct sp_inst *i, const char *what, uint32_t number)
{
    return sp_wave_fault(w, SP_FAULT_OPERAND, "%s: the emulator lacks %s %u", sp_wave_op_name(i->op), what, number);
}

int sp_image_of(struct sp_wave *w, const struct sp_inst *i, struct sp_image *m)
{
    enum { LAST_SGPR = 105 };
    uint32_t d[8], number, depth;
    if (i->sbase + 7 > LAST_SGPR) return sp_operand_bad(w, i, i->sbase);
    for (uint32_t k = 0; k < 8; k++) d[k] = sp_s32(w, i, i->sbase + k);
    bool old = w->generation == 10;
    memset(m, 0, sizeof *m);
    m->type = bits(d[3], 28, 4);
    if (w->stop || m->type == SP_IMAGE_NONE) return (int)w->stop;
    if (m->type < SP_IMAGE_1D) return sp_wave_fault(w, SP_FAULT_OPERAND, "%s: a buffer's descriptor", sp_wave_op_name(i->op));
    if (m->type >= SP_IMAGE_2D_MSAA) return lacks(w, i, "multisampled images, type", m->type);
    if (bits(d[6], 21, 1)) return lacks(w, i, "compressed images (DCC), COMPRESSION_EN", 1);
    m->base = (d[0] | (uint64_t)bits(d[1], 0, 8) << 32) << 8;
    m->base = sp_emu_canonical(m->base);
    number = bits(d[1], 20, old ? 9 : 8);
    if (!sp_texel_format(w->generation, true, number, &m->format) || !m->format.nbytes || m->format.nbytes == 12)
        return lacks(w, i, "image format", number);
    m->texel = (uint32_t)__builtin_ctz(m->format.nbytes);
    m->size[0] = (bits(d[1], 30, 2) | bits(d[2], 0, old ? 14 : 12) << 2) + 1;
    m->size[1] = m->type == SP_IMAGE_1D || m->type == SP_IMAGE_1D_ARRAY ? 1 : bits(d[2], 14, old ? 16 : 14) + 1;
    depth = bits(d[4], 0, 13);
    m->first_layer = bits(d[4], 16, 13);
    m->size[2] = m->type == SP_IMAGE_1D || m->type == SP_IMAGE_2D ? m->first_layer + 1 : depth + 1;
    m->dst_sel = d[3] & 0xFFF;
    m->base_level = bits(d[3], 12, 4);
    m->last_level = bits(d[3], 16, 4);
    m->mode = bits(d[3], 20, 5);
    m->levels = (old ? bits(d[5], 4, 4) : bits(d[1], 16, 4)) + 1;
    if (m->mode == 0 && m->type == SP_IMAGE_2D && m->levels == 1) {
        /* on gfx10.3 and gfx11 the descriptor may give another pitch than the width */
        uint32_t pitch = bits(d[4], 0, 14);
        m->pitch = pitch ? pitch + 1 : 0;
    }
    if (m->last_level >= m->levels || m->base_level > m->last_level)
        return sp_wave_fault(w, SP_FAULT_OPERAND, "%s: levels %u to %u of an image with %u", sp_wave_op_name(i->op),
                             m->base_level, m->last_level, m->levels);
    if (!sp_image_place(w->generation, w->x->gb_addr_config, m))
        return lacks(w, i, m->type == SP_IMAGE_3D ? "3D swizzle mode" : "swizzle mode", m->mode);
    return 0;
}
