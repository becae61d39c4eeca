/* Decodes one instruction by the generated tables: finds format and row, then moves each field to
 * its member. Code here handles what fields do not express: second words (literal, DPP, SDWA),
 * VOPD's two halves, address widths. */
#include "emu/isa/isa.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "emu/gen/isa_ops.h"

enum { SRC0_DPP8 = 233, SRC0_DPP8_FI = 234, SRC0_SDWA = 249, SRC0_DPP16 = 250, SRC_VCC = 106 };

static uint32_t low_bits(uint64_t bits, unsigned low, unsigned width)
{
    return (uint32_t)(bits >> low & ((1ull << width) - 1));
}

static uint32_t get(const struct sp_isa_field *f, uint64_t bits)
{
    return low_bits(bits, f->low, f->width) | low_bits(bits, f->low2, f->width2) << f->width;
}

/* Converts NULL and M0 to gfx11's codes. */
static uint32_t scalar(const struct sp_isa *isa, uint32_t code)
{
    return isa->null == SP_SRC_M0 && (code == SP_SRC_NULL || code == SP_SRC_M0) ? code ^ 1 : code;
}

static uint32_t value_of(const struct sp_isa *isa, const struct sp_isa_field *f, uint64_t bits)
{
    uint32_t raw = f->kind == SP_KIND_FIXED ? f->low : get(f, bits), sign;
    switch (f->kind) {
    case SP_KIND_SIGNED:
        sign = 1u << (f->width - 1);
        return (raw ^ sign) - sign;
    case SP_KIND_VGPR:
        return raw + SP_SRC_VGPR;
    case SP_KIND_VGPR_HALF:
        return (raw & 127) + SP_SRC_VGPR;
    case SP_KIND_SRC_HALF:
        return raw & SP_SRC_VGPR ? raw & ~128u : scalar(isa, raw);
    case SP_KIND_SCALAR:
    case SP_KIND_SRC:
        return scalar(isa, raw);
    case SP_KIND_PAIR:
        return raw * 2;
    case SP_KIND_QUAD:
        return raw * 4;
    default:
        return raw;
    }
}

/* Members of one byte. */
static void put_lane(struct sp_inst *out, unsigned slot, uint8_t v)
{
    switch (slot) {
    case SP_SLOT_ABS: out->abs = v; return;
    case SP_SLOT_NEG: out->neg = v; return;
    case SP_SLOT_ABS0: out->abs = (uint8_t)(out->abs | v); return;
    case SP_SLOT_NEG0: out->neg = (uint8_t)(out->neg | v); return;
    case SP_SLOT_ABS1: out->abs = (uint8_t)(out->abs | v << 1); return;
    case SP_SLOT_NEG1: out->neg = (uint8_t)(out->neg | v << 1); return;
    case SP_SLOT_NEG_HI: out->neg_hi = v; return;
    case SP_SLOT_OP_SEL: out->op_sel = v; return;
    case SP_SLOT_OP_SEL_HI: out->op_sel_hi = v; return;
    case SP_SLOT_OMOD: out->omod = v; return;
    case SP_SLOT_CLAMP: out->clamp = v; return;
    case SP_SLOT_ROW_MASK: out->row_mask = v; return;
    case SP_SLOT_BANK_MASK: out->bank_mask = v; return;
    case SP_SLOT_BOUND_CTRL: out->bound_ctrl = v; return;
    case SP_SLOT_FI: out->fetch_inactive = v; return;
    case SP_SLOT_DST_SEL: out->dst_sel = v; return;
    case SP_SLOT_DST_UNUSED: out->dst_unused = v; return;
    case SP_SLOT_SRC0_SEL: out->src0_sel = v; return;
    case SP_SLOT_SRC1_SEL: out->src1_sel = v; return;
    case SP_SLOT_SEXT0: out->src0_sext = v; return;
    case SP_SLOT_SEXT1: out->src1_sext = v; return;
    case SP_SLOT_GLC: out->glc = v; return;
    case SP_SLOT_SLC: out->slc = v; return;
    case SP_SLOT_DLC: out->dlc = v; return;
    case SP_SLOT_LDS: out->lds = v; return;
    case SP_SLOT_GDS: out->gds = v; return;
    case SP_SLOT_OFFEN: out->offen = v; return;
    case SP_SLOT_IDXEN: out->idxen = v; return;
    case SP_SLOT_TFE: out->tfe = v; return;
    case SP_SLOT_SEGMENT: out->segment = v; return;
    case SP_SLOT_BUF_FORMAT: out->buf_format = v; return;
    case SP_SLOT_ATTR: out->attr = v; return;
    case SP_SLOT_CHAN: out->chan = v; return;
    case SP_SLOT_WAIT: out->wait = v; return;
    case SP_SLOT_NSA: out->nsa = v; return;
    case SP_SLOT_DIM: out->dim = v; return;
    case SP_SLOT_DMASK: out->dmask = v; return;
    case SP_SLOT_UNRM: out->unrm = v; return;
    case SP_SLOT_R128: out->r128 = v; return;
    case SP_SLOT_LWE: out->lwe = v; return;
    case SP_SLOT_A16: out->a16 = v; return;
    case SP_SLOT_D16: out->d16 = v; return;
    default: return;
    }
}

static void put_operand(struct sp_inst *out, const struct sp_isa_field *f, uint32_t value)
{
    uint16_t v = (uint16_t)value;
    switch (f->slot) {
    case SP_SLOT_DST: out->dst = v; out->dst_ndw = f->ndw; return;
    case SP_SLOT_SDST: out->sdst = v; out->sdst_ndw = f->ndw; return;
    case SP_SLOT_SRC0: out->src[0] = v; out->src_ndw[0] = f->ndw; return;
    case SP_SLOT_SRC1: out->src[1] = v; out->src_ndw[1] = f->ndw; return;
    case SP_SLOT_SRC2: out->src[2] = v; out->src_ndw[2] = f->ndw; return;
    case SP_SLOT_DST_SRC1:
        out->dst = out->src[1] = v;
        out->dst_ndw = out->src_ndw[1] = f->ndw;
        return;
    case SP_SLOT_SBASE: out->sbase = v; return;
    case SP_SLOT_SOFFSET: out->soffset = v; return;
    case SP_SLOT_DSTY: out->dsty = v; return;
    case SP_SLOT_SRCY0: out->srcy[0] = v; return;
    case SP_SLOT_SRCY1: out->srcy[1] = v; return;
    case SP_SLOT_OFFSET: out->offset = (int32_t)value; return;
    case SP_SLOT_DPP_CTRL: out->dpp_ctrl = v; return;
    case SP_SLOT_DPP8: out->dpp8 = value; return;
    default: put_lane(out, f->slot, (uint8_t)value); return;
    }
}

/* Bit 7 of a half's VGPR becomes OP_SEL, as VOP3 has it. */
static void put_half(struct sp_inst *out, unsigned slot, uint32_t raw)
{
    unsigned bit = slot == SP_SLOT_DST ? 3 : slot - SP_SLOT_SRC0;
    int vgpr = slot == SP_SLOT_DST || slot == SP_SLOT_SRC1 || raw & SP_SRC_VGPR;
    if (vgpr && raw & 128)
        out->op_sel = (uint8_t)(out->op_sel | 1u << bit);
}

static void put_all(const struct sp_isa *isa, const struct sp_isa_field *fields, unsigned count, uint64_t bits,
                    struct sp_inst *out)
{
    for (unsigned i = 0; i < count; i++) {
        put_operand(out, &fields[i], value_of(isa, &fields[i], bits));
        if (fields[i].kind == SP_KIND_VGPR_HALF || fields[i].kind == SP_KIND_SRC_HALF)
            put_half(out, fields[i].slot, get(&fields[i], bits));
    }
}

static void put_operands(const struct sp_isa *isa, const struct sp_isa_row *row, uint64_t bits, struct sp_inst *out)
{
    put_all(isa, isa->operands + row->first, row->count, bits, out);
}

static const struct sp_isa_format *format_of(const struct sp_isa *isa, uint32_t word)
{
    for (unsigned i = 0; i < isa->formats_count; i++)
        if ((word & isa->formats[i].mask) == isa->formats[i].value)
            return &isa->formats[i];
    return NULL;
}

/* FLAT's segment, a separate field, is a part of the opcode. */
static uint32_t segment_of(const struct sp_isa_format *format, uint64_t bits)
{
    for (unsigned i = 0; i < format->count; i++)
        if (format->modifiers[i].slot == SP_SLOT_SEGMENT)
            return get(&format->modifiers[i], bits);
    return 0;
}

static const struct sp_isa_row *row_of(const struct sp_isa_row *rows, uint32_t count, uint32_t index)
{
    return index < count && rows[index].op ? &rows[index] : NULL;
}

/* Number of an address' registers, which the row does not contain. */
static void count_address(uint64_t bits, const struct sp_isa_format *format, struct sp_inst *out)
{
    if (out->format == SP_FORMAT_FLAT) {
        unsigned sve = out->soffset; /* gfx10: SADDR NULL, as finish_memory left it */
        out->soffset = 0;
        for (unsigned i = 0; i < format->count; i++)
            if (format->modifiers[i].slot == SP_SLOT_SVE)
                sve = get(&format->modifiers[i], bits);
        out->src_ndw[0] = (uint8_t)(out->segment == 1 ? sve : out->segment == 2 && !out->saddr_null ? 1 : 2);
    } else if (out->format == SP_FORMAT_MUBUF || out->format == SP_FORMAT_MTBUF) {
        out->src_ndw[0] = (uint8_t)(out->offen + out->idxen);
        if (out->tfe && out->dst_ndw)
            out->dst_ndw++;
    }
    if (out->lds) /* gfx10: the data go to LDS; VDATA or VDST is not written */
        out->dst = out->dst_ndw = 0;
}

/* Handles SADDR and SOFFSET that mean "none", and an offset whose sign depends on the segment. */
static void finish_memory(const struct sp_isa *isa, struct sp_inst *out)
{
    if (out->format == SP_FORMAT_FLAT) {
        out->saddr_null = out->segment == 0 || out->sbase == SP_SRC_NULL || (isa->generation == 10 && out->sbase == 127);
        out->soffset = isa->generation == 10 && out->sbase == SP_SRC_NULL; /* for count_address */
        if (out->saddr_null)
            out->sbase = SP_SRC_NULL;
        if (out->segment == 0) /* an unsigned offset, one bit less */
            out->offset &= isa->generation == 10 ? 0x7ff : 0xfff;
    } else if (out->format == SP_FORMAT_SMEM) {
        out->saddr_null = out->soffset == SP_SRC_NULL;
    }
}

static int is_vop12c(unsigned format)
{
    return format == SP_FORMAT_VOP1 || format == SP_FORMAT_VOP2 || format == SP_FORMAT_VOPC;
}

/* SDWA's scalar bits: S0, S1 mark a field as an SGPR, SD sends VOPC's result to SDST. */
static void sdwa_scalars(const struct sp_isa *isa, const struct sp_isa_format *word, uint64_t bits, struct sp_inst *out)
{
    for (unsigned i = 0; i < word->count; i++) {
        const struct sp_isa_field *f = &word->modifiers[i];
        uint32_t on = get(f, bits);
        if (f->slot == SP_SLOT_S0 && on)
            out->src[0] = (uint16_t)scalar(isa, out->src[0] - SP_SRC_VGPR);
        if (f->slot == SP_SLOT_S1 && on && out->src_ndw[1])
            out->src[1] = (uint16_t)scalar(isa, out->src[1] - SP_SRC_VGPR);
        if (f->slot == SP_SLOT_SD && on)
            out->dst = out->sdst;
    }
    if (out->format == SP_FORMAT_VOPC)
        out->sdst = 0;
}

static int is_half(const struct sp_isa *isa, const struct sp_isa_row *row, unsigned slot)
{
    const struct sp_isa_field *operands = isa->operands + row->first;
    for (unsigned i = 0; i < row->count; i++)
        if (operands[i].slot == slot)
            return operands[i].kind == SP_KIND_SRC_HALF;
    return 0;
}

/* The dword that SRC0 asks for. 1: present, 0: absent, negative: the row does not allow it. */
static int second_word(const struct sp_isa *isa, const struct sp_isa_row *row, uint32_t word, struct sp_inst *out,
                       uint64_t *reserved)
{
    uint16_t sdst = out->sdst, src0 = out->src[0];
    uint8_t ndw = out->src_ndw[0], sdst_ndw = out->sdst_ndw;
    const struct sp_isa_format *form;
    int allowed;
    if (src0 == SRC0_DPP16) {
        form = isa->dpp16;
        out->lane_mode = SP_LANE_DPP16;
        allowed = row->flags & SP_ISA_DPP;
    } else if (src0 == SRC0_DPP8 || src0 == SRC0_DPP8_FI) {
        form = isa->dpp8;
        out->lane_mode = SP_LANE_DPP8;
        out->fetch_inactive = src0 == SRC0_DPP8_FI;
        allowed = row->flags & SP_ISA_DPP8;
    } else if (src0 == SRC0_SDWA && isa->sdwa) {
        form = row->format == SP_FORMAT_VOPC ? isa->sdwab : isa->sdwa;
        out->lane_mode = SP_LANE_SDWA;
        allowed = row->flags & SP_ISA_SDWA;
    } else {
        return 0;
    }
    if (!allowed)
        return -EILSEQ;
    put_all(isa, form->modifiers, form->count, word, out);
    out->src_ndw[0] = ndw;
    if (is_half(isa, row, SP_SLOT_SRC0) && out->src[0] & 128) {
        out->src[0] = (uint16_t)(out->src[0] & ~128u);
        out->op_sel |= 1;
    }
    if (out->lane_mode == SP_LANE_SDWA)
        sdwa_scalars(isa, form, word, out);
    if (form != isa->sdwab || !isa->sdwab) {
        out->sdst = sdst;
        out->sdst_ndw = sdst_ndw;
    }
    *reserved |= word & form->reserved;
    return 1;
}

static int wants_literal(const struct sp_inst *out)
{
    for (unsigned i = 0; i < 3; i++)
        if (out->src[i] == SP_SRC_LITERAL)
            return 1;
    return out->srcy[0] == SP_SRC_LITERAL;
}

/* The other half: its row, its operands; VDSTY's lowest bit is the opposite of VDSTX's. */
static const struct sp_isa_row *decode_y(const struct sp_isa *isa, uint64_t bits, uint32_t opy, struct sp_inst *out)
{
    const struct sp_isa_row *y = row_of(isa->vopd_y, isa->vopd_y_count, opy);
    if (y) {
        put_operands(isa, y, bits, out);
        out->opy = y->op;
        out->dsty = (uint16_t)(SP_SRC_VGPR + (out->dsty << 1 | (~out->dst & 1)));
    }
    return y;
}

static int unknown(const struct sp_isa *isa, const char *space, uint32_t opcode, char *why, uint32_t why_nbytes)
{
    if (why && why_nbytes)
        snprintf(why, why_nbytes, "gfx%u has no %s opcode 0x%x", isa->generation, space, opcode);
    return -EILSEQ;
}

static int find_row(const struct sp_isa *isa, const struct sp_isa_format *format, uint64_t bits, const struct sp_isa_row **row,
                    char *why, uint32_t why_nbytes)
{
    static const char *const segments[4] = {"FLAT", "SCRATCH", "GLOBAL", "FLAT segment 3"};
    uint32_t opcode = get(&format->opcode, bits), segment = segment_of(format, bits);
    *row = row_of(format->rows, format->rows_count, opcode + segment * 128);
    if (*row && segment < 3)
        return 0;
    const char *space = format->format == SP_FORMAT_FLAT ? segments[segment] : sp_format_names[format->format];
    return unknown(isa, space, opcode, why, why_nbytes);
}

/* True if an operand uses the constant bus: SGPRs and similar, and the literal; not NULL or inline
 * constants. */
static int is_scalar(uint32_t code)
{
    int constant = (code >= 128 && code <= 208) || (code >= 240 && code <= 248);
    return code < SP_SRC_VGPR && code != SP_SRC_NULL && !constant;
}

/* Counts a vector instruction's reads over the constant bus, by the rules of
 * sparkle_drv/amd/isa/bus.py. */
static void count_bus(const struct sp_isa_row *row, const struct sp_isa_row *y, struct sp_inst *out)
{
    unsigned flags = row->flags | (y ? y->flags : 0u), count = 0;
    uint32_t codes[6], seen[6];
    unsigned n = 0;
    for (unsigned k = 0; k < 3; k++)
        codes[n++] = out->src_ndw[k] ? out->src[k] : SP_SRC_NULL;
    codes[n++] = y ? out->srcy[0] : SP_SRC_NULL;
    codes[n++] = flags & SP_ISA_VCC ? SRC_VCC : SP_SRC_NULL;
    codes[n++] = flags & SP_ISA_LITERAL ? SP_SRC_LITERAL : SP_SRC_NULL;
    for (unsigned k = 0; k < n; k++) {
        int known = !is_scalar(codes[k]);
        for (unsigned j = 0; j < count; j++)
            known |= seen[j] == codes[k];
        if (!known)
            seen[count++] = codes[k];
    }
    out->bus = (uint8_t)count;
    out->bus_most = flags & SP_ISA_BUS1 ? 1 : 2;
}

/* Decodes the dwords after the instruction: literal, DPP, SDWA. */
static int decode_tail(const struct sp_isa *isa, const struct sp_isa_row *row, int literal, const uint32_t *words, uint32_t count,
                       struct sp_inst *out, uint64_t *reserved, char *why, uint32_t why_nbytes)
{
    int vector = is_vop12c(out->format) || (isa->generation >= 11 && (out->format == SP_FORMAT_VOP3 || out->format == SP_FORMAT_VOP3B ||
                                                                     out->format == SP_FORMAT_VOP3P));
    if (out->format == SP_FORMAT_MIMG) {
        out->ndw = (uint8_t)(out->ndw + out->nsa);
        if (out->ndw > count) return -ENODATA;
        memcpy(out->more_vaddr, words + 2, 4u * out->nsa);
    }
    int took = vector && out->src_ndw[0] ? second_word(isa, row, out->ndw < count ? words[out->ndw] : 0, out, reserved) : 0;
    if (took < 0) {
        if (why && why_nbytes)
            snprintf(why, why_nbytes, "gfx%u: %s (%s) takes no %s", isa->generation, sp_op_names[row->op], sp_format_names[row->format],
                     out->lane_mode == SP_LANE_SDWA ? "SDWA" : out->lane_mode == SP_LANE_DPP8 ? "DPP8" : "DPP");
        return took;
    }
    int has = took == 0 && (literal || wants_literal(out));
    if (out->ndw + took + has > (int)count)
        return -ENODATA;
    if (has)
        out->literal = words[out->ndw];
    out->ndw = (uint8_t)(out->ndw + took + has);
    return 0;
}

int sp_isa_decode(const struct sp_isa *isa, const uint32_t *words, uint32_t count, struct sp_inst *out, uint32_t *reserved,
                  char *why, uint32_t why_nbytes)
{
    memset(out, 0, sizeof *out);
    if (reserved)
        *reserved = 0;
    if (count < 1)
        return -ENODATA;
    const struct sp_isa_format *format = format_of(isa, words[0]);
    if (!format) {
        if (why && why_nbytes)
            snprintf(why, why_nbytes, "gfx%u has no format for 0x%08x", isa->generation, words[0]);
        return -EILSEQ;
    }
    if (format->ndw > count)
        return -ENODATA;
    uint64_t bits = words[0] | (uint64_t)(format->ndw > 1 ? words[1] : 0) << 32, odd;
    const struct sp_isa_row *row, *y = NULL;
    int rc = find_row(isa, format, bits, &row, why, why_nbytes);
    if (rc)
        return rc;
    if (row->format == SP_FORMAT_VOP3B)
        format = isa->vop3b;
    out->op = row->op;
    out->format = row->format;
    out->minor = row->minor;
    out->ndw = format->ndw;
    put_all(isa, format->modifiers, format->count, bits, out);
    put_operands(isa, row, bits, out);
    out->two_addr = (row->flags & SP_ISA_TWO_ADDR) != 0;
    odd = bits & format->reserved;
    if (out->format == SP_FORMAT_VOPD) {
        uint32_t opy = get(&format->opcode2, bits);
        y = decode_y(isa, bits, opy, out);
        if (!y)
            return unknown(isa, "VOPD Y", opy, why, why_nbytes);
    }
    finish_memory(isa, out);
    count_address(bits, format, out);
    rc = decode_tail(isa, row, ((row->flags | (y ? y->flags : 0)) & SP_ISA_LITERAL) != 0, words, count, out, &odd, why, why_nbytes);
    if (is_vop12c(out->format) || out->format == SP_FORMAT_VOP3 || out->format == SP_FORMAT_VOP3B ||
        out->format == SP_FORMAT_VOP3P || out->format == SP_FORMAT_VOPD)
        count_bus(row, y, out);
    if (reserved)
        *reserved = odd != 0;
    return rc;
}

int sp_inst_decode_gfx10(const uint32_t *words, uint32_t count, struct sp_inst *out, uint32_t *reserved, char *why,
                         uint32_t why_nbytes)
{
    return sp_isa_decode(&sp_isa_gfx10, words, count, out, reserved, why, why_nbytes);
}

int sp_inst_decode_gfx11(const uint32_t *words, uint32_t count, struct sp_inst *out, uint32_t *reserved, char *why,
                         uint32_t why_nbytes)
{
    return sp_isa_decode(&sp_isa_gfx11, words, count, out, reserved, why, why_nbytes);
}
