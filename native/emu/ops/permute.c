/* Permutations of lanes that go through the crossbar of LDS; no memory is touched. They return as LDS does (lgkmcnt). */
#include "families.h"
#include "memory.h"

#define HEAD(NAME) static int NAME(struct sp_wave *w, const struct sp_inst *i)

static int put(struct sp_wave *w, const struct sp_inst *i, const uint32_t *r)
{
    if (w->stop) return (int)w->stop;
    sp_put_loaded(w, i->dst, r);
    sp_wave_load_begins(w, SP_PEND_LDS, i->dst, 1);
    return 0;
}

/* Lane `from` of src[1] as lanes see it: inactive ones give 0. */
static uint32_t lane_value(struct sp_wave *w, const struct sp_inst *i, uint16_t code, uint32_t from)
{
    if (!(w->exec >> from & 1)) return 0;
    if (!(w->vgpr_ready[code & 255] >> from & 1)) sp_wave_not_ready(w, i, code);
    return w->v[code & 255][from];
}

/* Addresses are bytes; in a wave64 each half permutes by itself. */
HEAD(DS_BPERMUTE_B32)
{
    uint32_t r[SP_LANES];
    const uint32_t *at = sp_vgpr(w, i, i->src[0]);
    for (uint32_t l = 0; l < w->lanes; l++)
        r[l] = lane_value(w, i, i->src[1], (l & 32) + ((at[l] + ((uint32_t)i->offset & 0xFFFF)) / 4 & 31));
    return put(w, i, r);
}

HEAD(DS_PERMUTE_B32)
{
    uint32_t r[SP_LANES] = {0};
    const uint32_t *at = sp_vgpr(w, i, i->src[0]), *data = sp_vgpr(w, i, i->src[1]);
    for (uint32_t l = 0; l < w->lanes; l++)
        if (w->exec >> l & 1) r[(l & 32) + ((at[l] + ((uint32_t)i->offset & 0xFFFF)) / 4 & 31)] = data[l];
    return put(w, i, r);
}

/* OFFSET bit 15: quads, two bits a lane. Else groups of 32: lane = (lane & and | or) ^ xor, five bits each. */
HEAD(DS_SWIZZLE_B32)
{
    uint32_t r[SP_LANES], k = (uint32_t)i->offset & 0xFFFF;
    if (k >= 0xC000) return sp_wave_fault(w, SP_FAULT_OPERAND, "DS_SWIZZLE_B32: mode 0x%x is not modelled", k);
    for (uint32_t l = 0; l < w->lanes; l++) {
        uint32_t from = k & 0x8000 ? (l & ~3u) + (k >> 2 * (l & 3) & 3)
                                   : (l & 32) + ((((l & 31) & (k & 31)) | (k >> 5 & 31)) ^ (k >> 10 & 31));
        r[l] = lane_value(w, i, i->src[0], from);
    }
    return put(w, i, r);
}

#define E SP_OP_ENTRY
const struct sp_wave_op sp_wave_permute[] = {E(DS_BPERMUTE_B32) E(DS_PERMUTE_B32) E(DS_SWIZZLE_B32) SP_OP_END};
