/* The rarer operands: constants, apertures, sources moved across lanes (DPP16, DPP8) or selected by
 * byte or word (SDWA). "DPP" and "SDWA" in AMD's RDNA2 and RDNA3 ISA documents define which lane
 * reads which. */
#include "operand.h"

static const float SMALL[] = {0.5f, -0.5f, 1.0f, -1.0f, 2.0f, -2.0f, 4.0f, -4.0f, 0.15915494f};
static const uint16_t SMALL_HALF[] = {0x3800, 0xB800, 0x3C00, 0xBC00, 0x4000, 0xC000, 0x4400, 0xC400, 0x3118};

int sp_operand_bad(struct sp_wave *w, const struct sp_inst *i, uint32_t code)
{
    return sp_wave_fault(w, SP_FAULT_OPERAND, "%s cannot have operand %u", sp_wave_op_name(i->op), code);
}

static uint64_t literal(const struct sp_inst *i, enum sp_width width)
{
    if (width == SP_F64) return (uint64_t)i->literal << 32;
    return width == SP_I64 ? (uint64_t)(int64_t)(int32_t)i->literal : i->literal;
}

static uint64_t small_float(uint32_t which, enum sp_width width)
{
    /* 1/(2 pi), constant number 8, has its own nearest value in each format. The double of it is
     * not made from the float, which would have too few digits. */
    if (width == SP_F64 || width == SP_B64 || width == SP_I64)
        return which == 8 ? UINT64_C(0x3FC45F306DC9C882) : sp_u64((double)SMALL[which]);
    if (width == SP_B16) return SMALL_HALF[which];
    return which == 8 ? 0x3E22F983u : sp_u32(SMALL[which]);
}

uint64_t sp_operand_special(struct sp_wave *w, const struct sp_inst *i, uint32_t code, enum sp_width width)
{
    bool wide = width == SP_F64 || width == SP_B64 || width == SP_I64;
    if (code == SP_SRC_NULL) return 0;
    if (code >= 128 && code <= 192) return code - 128;
    if (code >= 193 && code <= 208) return wide ? (uint64_t)(192 - (int64_t)code) : (uint32_t)(192 - (int32_t)code);
    if (code >= 240 && code <= 248) return small_float(code - 240, width);
    if (code == SP_SRC_LITERAL) return literal(i, width);
    /* Apertures are 64-bit values whose low half is 0 (LLVM reads them only as pairs). The limit of
     * an aperture is the address of its last byte. */
    if (code == 235) return wide ? UINT64_C(0x20000000) << 32 : 0;
    if (code == 236) return wide ? (UINT64_C(0x20000000) << 32 | 0xFFFFFFFF) : 0xFFFFFFFF;
    if (code == 237) return wide ? UINT64_C(0x10000000) << 32 : 0;
    if (code == 238) return wide ? (UINT64_C(0x10000000) << 32 | 0xFFFFFFFF) : 0xFFFFFFFF;
    if (code == 251) return sp_whole_mask(w, i, SP_VCC) == 0;
    if (code == 252) return w->exec == 0;
    if (code == SP_SRC_SCC) return sp_scc(w, i);
    sp_operand_bad(w, i, code);
    return 0;
}

uint32_t sp_s32_slow(struct sp_wave *w, const struct sp_inst *i, uint32_t code)
{
    if (code >= SP_SGPRS) return (uint32_t)sp_operand_special(w, i, code, SP_B32);
    sp_wave_not_ready(w, i, code);
    return w->s[code];
}

uint64_t sp_s64_slow(struct sp_wave *w, const struct sp_inst *i, uint32_t code)
{
    if (code >= SP_SGPRS - 1 || code == SP_SRC_NULL) return sp_operand_special(w, i, code, SP_B64);
    for (uint32_t k = 0; k < 2; k++)
        if (!w->sgpr_ready[code + k]) sp_wave_not_ready(w, i, code + k);
    return w->s[code] | (uint64_t)w->s[code + 1] << 32;
}

uint64_t sp_mask_slow(struct sp_wave *w, const struct sp_inst *i, uint32_t code)
{
    uint32_t count = w->lanes / 32;
    if (code + count > SP_SGPRS || code == SP_SRC_NULL) return sp_whole_mask(w, i, code);
    for (uint32_t k = 0; k < count; k++)
        if (!w->sgpr_ready[code + k] && (sp_wave_is_pending(w, code + k) ||
                                         (sp_wave_undefined_bits(w, code + k, 0) & w->s[SP_EXEC + k])))
            sp_wave_not_ready(w, i, code + k);
    return w->s[code] | (count == 2 ? (uint64_t)w->s[code + 1] << 32 : 0);
}

void sp_put_s32_slow(struct sp_wave *w, const struct sp_inst *i, uint32_t code, uint32_t value)
{
    if (code >= SP_SGPRS) sp_operand_bad(w, i, code);
    if (w->stop || code == SP_SRC_NULL) return;
    if (w->pending_count) sp_wave_overtaken(w, i, code);
    w->s[code] = value;
    w->sgpr_ready[code] = 1;
    if (code >= SP_EXEC) sp_exec_changed(w);
}

void sp_vgpr_undefined(struct sp_wave *w, const struct sp_inst *i, uint32_t code, bool stored)
{
    if (sp_wave_is_pending(w, code)) sp_wave_not_ready(w, i, code);
    if (stored && w->strict) w->poison_seen = 1;
}

/* Returns the lane that lane `l` reads by DPP_CTRL; -1: no lane; -2: a reserved value. */
static int dpp_from(const struct sp_wave *w, uint32_t ctrl, uint32_t l)
{
    uint32_t row = l & ~15u, in = l & 15, n = ctrl & 15;
    if (ctrl < 0x100) return (int)((l & ~3u) + (ctrl >> (l & 3) * 2 & 3));
    if (ctrl > 0x100 && ctrl <= 0x10F) return in + n < 16 ? (int)(l + n) : -1;
    if (ctrl > 0x110 && ctrl <= 0x11F) return in >= n ? (int)(l - n) : -1;
    if (ctrl > 0x120 && ctrl <= 0x12F) return (int)(row + ((in - n) & 15));
    if (ctrl == 0x140) return (int)(row + (15 - in));
    if (ctrl == 0x141) return (int)(row + (in ^ 7));
    if (ctrl >= 0x150 && ctrl <= 0x15F) return (int)(row + n);
    if (ctrl >= 0x160 && ctrl <= 0x16F) return (int)(row + (in ^ n));
    /* RDNA reserves 0x142, which was ROW_BCAST:15. Only a lenient emulator executes it: each lane
     * reads lane 0 of its row, as tinygrad reports of a card (test/amd/hw/test_dpp.py). */
    return ctrl == 0x142 && w->x->lenient & SP_LENIENT_RESERVED ? (int)row : -2;
}

static void dpp16(struct sp_wave *w, const struct sp_inst *i, const uint32_t *from, uint32_t *to)
{
    uint64_t enable = 0, missing = 0, ready = w->vgpr_ready[i->src[0] & 255];
    for (uint32_t l = 0; l < w->lanes; l++) {
        bool written = (i->row_mask >> (l / 16 % 4) & 1) && (i->bank_mask >> (l / 4 % 4) & 1);
        int lane = dpp_from(w, i->dpp_ctrl, l);
        if (lane == -2) {
            sp_wave_fault(w, SP_FAULT_RESERVED, "%s: DPP_CTRL 0x%x is reserved", sp_wave_op_name(i->op), i->dpp_ctrl);
            return;
        }
        bool valid = lane >= 0 && (i->fetch_inactive || (w->exec >> lane & 1));
        to[l] = valid ? from[lane] : 0;
        enable |= (uint64_t)(written && (valid || i->bound_ctrl)) << l;
        if (valid && written && !(ready >> lane & 1)) missing |= UINT64_C(1) << l;
    }
    w->lane_enable = enable;
    if (missing & w->exec) sp_wave_not_ready(w, i, i->src[0]);
}

static void dpp8(struct sp_wave *w, const struct sp_inst *i, const uint32_t *from, uint32_t *to)
{
    for (uint32_t l = 0; l < w->lanes; l++) {
        uint32_t lane = (l & ~7u) + (i->dpp8 >> (l & 7) * 3 & 7);
        to[l] = i->fetch_inactive || (w->exec >> lane & 1) ? from[lane] : 0;
    }
}

/* Returns the part of a value that SDWA selects by `sel`: 0 to 3 a byte, 4 or 5 a word, 6 the whole
 * dword. */
static uint32_t sdwa_select(uint32_t value, uint32_t sel, bool sign)
{
    if (sel < 4) {
        uint32_t byte = value >> sel * 8 & 0xFF;
        return sign ? (uint32_t)(int8_t)byte : byte;
    }
    if (sel < 6) {
        uint32_t word = value >> (sel - 4) * 16 & 0xFFFF;
        return sign ? (uint32_t)(int16_t)word : word;
    }
    return value;
}

const uint32_t *sp_operand_lanes(struct sp_wave *w, const struct sp_inst *i, unsigned k, const uint32_t *from,
                                 uint32_t *to)
{
    uint32_t result[SP_LANES];
    if (i->lane_mode == SP_LANE_SDWA) {
        if (k > 1) return from;
        uint32_t sel = k ? i->src1_sel : i->src0_sel;
        bool sign = k ? i->src1_sext : i->src0_sext;
        for (uint32_t l = 0; l < w->lanes; l++) to[l] = sdwa_select(from[l], sel, sign);
        return to;
    }
    if (k != 0) return from;
    if (i->lane_mode == SP_LANE_DPP16)
        dpp16(w, i, from, result);
    else
        dpp8(w, i, from, result);
    memcpy(to, result, w->lanes * sizeof *to);
    return to;
}

/* Places results by DST_SEL. DST_UNUSED says what the other bits become: 0 zeros, 1 the sign, 2 the
 * old value. */
void sp_operand_sdwa_result(const struct sp_inst *i, const uint32_t *old, uint32_t *result, uint32_t lanes)
{
    uint32_t sel = i->dst_sel, bits = sel < 4 ? 8 : 16, shift = sel < 4 ? sel * 8 : (sel - 4) * 16;
    if (sel >= 6) return;
    uint32_t mask = ((1u << bits) - 1) << shift;
    for (uint32_t l = 0; l < lanes; l++) {
        uint32_t value = result[l] << shift & mask;
        if (i->dst_unused == 1 && (value >> (shift + bits - 1) & 1)) value |= ~(mask | ((1u << shift) - 1));
        result[l] = i->dst_unused == 2 ? value | (old[l] & ~mask) : value;
    }
}
