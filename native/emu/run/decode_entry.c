/* The functions of sp_emu_isa.h, by which Python uses the decoder. */
#include "include/sp_emu_isa.h"

#include <errno.h>
#include <stddef.h>

#include "emu/gen/isa_ops.h"
#include "emu/isa/inst.h"

static void widen(const struct sp_inst *in, struct sp_emu_inst *out)
{
    int image = in->format == SP_FORMAT_MIMG;
    out->op = in->op;
    out->format = in->format;
    out->ndw = in->ndw;
    out->dst = in->dst;
    out->sdst = in->sdst;
    out->src[0] = in->src[0];
    out->src[1] = in->src[1];
    out->src[2] = in->src[2];
    out->sbase = in->sbase;
    out->soffset = in->soffset;
    out->offset = in->offset;
    out->literal = in->literal;
    out->abs = in->abs;
    out->neg = in->neg;
    out->neg_hi = in->neg_hi;
    out->op_sel = in->op_sel;
    out->op_sel_hi = in->op_sel_hi;
    out->omod = in->omod;
    out->clamp = in->clamp;
    out->lane_mode = in->lane_mode;
    out->dpp_ctrl = image ? 0 : in->dpp_ctrl;
    out->row_mask = image ? 0 : in->row_mask;
    out->bank_mask = image ? 0 : in->bank_mask;
    out->bound_ctrl = image ? 0 : in->bound_ctrl;
    out->fetch_inactive = image ? 0 : in->fetch_inactive;
    out->dpp8 = image ? 0 : in->dpp8;
    out->dst_sel = image ? 0 : in->dst_sel;
    out->dst_unused = image ? 0 : in->dst_unused;
    out->src0_sel = image ? 0 : in->src0_sel;
    out->src1_sel = image ? 0 : in->src1_sel;
    out->src0_sext = image ? 0 : in->src0_sext;
    out->src1_sext = image ? 0 : in->src1_sext;
    out->glc = in->glc;
    out->slc = in->slc;
    out->dlc = in->dlc;
    out->lds = in->lds;
    out->gds = in->gds;
    out->offen = in->offen;
    out->idxen = in->idxen;
    out->tfe = in->tfe;
    out->segment = in->segment;
    out->saddr_null = in->saddr_null;
    out->buf_format = in->buf_format;
    out->attr = in->attr;
    out->chan = in->chan;
    out->wait = in->wait;
    out->two_addr = in->two_addr;
    out->dst_ndw = in->dst_ndw;
    out->sdst_ndw = in->sdst_ndw;
    out->src_ndw[0] = in->src_ndw[0];
    out->src_ndw[1] = in->src_ndw[1];
    out->src_ndw[2] = in->src_ndw[2];
    out->opy = in->opy;
    out->dsty = in->dsty;
    out->srcy[0] = in->srcy[0];
    out->srcy[1] = in->srcy[1];
}

int sp_emu_decode(uint32_t generation, const uint32_t *words, uint32_t count, struct sp_emu_inst *out, char *why,
                  uint32_t why_nbytes)
{
    struct sp_inst inst;
    int rc;
    if (generation == 10)
        rc = sp_inst_decode_gfx10(words, count, &inst, &out->reserved, why, why_nbytes);
    else if (generation == 11)
        rc = sp_inst_decode_gfx11(words, count, &inst, &out->reserved, why, why_nbytes);
    else
        return -EINVAL;
    widen(&inst, out);
    return rc;
}

const char *sp_emu_op_name(uint32_t op)
{
    return op < SP_OP_NUM ? sp_op_names[op] : NULL;
}

const char *sp_emu_format_name(uint32_t format)
{
    return format < SP_FORMAT_NUM ? sp_format_names[format] : NULL;
}
