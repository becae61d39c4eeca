/* Typed buffer accesses. MUBUF uses the descriptor's format, MTBUF the instruction's. "Buffer Data
 * Format" of AMD's RDNA2 and RDNA3 ISA documents says which fields apply to which instruction.
 * DST_SEL belongs to the descriptor, so MTBUF ignores it. Swizzled addresses and range checks are
 * those of plain accesses (../buffer.c). */
#include "emu/ops/buffer.h"
#include "emu/ops/families.h"
#include "format.h"

/* Each element stands for the four instructions with consecutive opcodes that access one to four
 * components. If `one` is set (D16_HI or LDS), it stands only for the instruction that accesses one
 * component. */
static const struct group {
    uint16_t first;
    uint8_t d16, high, store, one;
} groups[] = {
    {SP_OP_BUFFER_LOAD_FORMAT_X, 0, 0, 0, 0},        {SP_OP_BUFFER_STORE_FORMAT_X, 0, 0, 1, 0},
    {SP_OP_BUFFER_LOAD_D16_FORMAT_X, 1, 0, 0, 0},    {SP_OP_BUFFER_STORE_D16_FORMAT_X, 1, 0, 1, 0},
    {SP_OP_BUFFER_LOAD_D16_HI_FORMAT_X, 1, 1, 0, 1}, {SP_OP_BUFFER_STORE_D16_HI_FORMAT_X, 1, 1, 1, 1},
    {SP_OP_TBUFFER_LOAD_FORMAT_X, 0, 0, 0, 0},       {SP_OP_TBUFFER_STORE_FORMAT_X, 0, 0, 1, 0},
    {SP_OP_TBUFFER_LOAD_D16_FORMAT_X, 1, 0, 0, 0},   {SP_OP_TBUFFER_STORE_D16_FORMAT_X, 1, 0, 1, 0},
    {SP_OP_BUFFER_LOAD_LDS_FORMAT_X, 0, 0, 0, 1},
};
enum { IDENTITY = 4 | 5 << 3 | 6 << 6 | 7 << 9 };

struct access {
    struct sp_texel_format format;
    uint64_t va[SP_LANES], step, inside;
    uint32_t dst_sel, count; /* components */
    uint32_t how;            /* SP_VM_* bits: which caches the instruction's reads bypass */
    uint64_t undefined;      /* lanes whose element is not completely written */
    const struct group *group;
};

/* Decodes the instruction and the descriptor. Returns 0, or w->stop if the wave must stop. An
 * INVALID format stands for a missing buffer: loads give 0, stores do nothing. */
static int begin(struct sp_wave *w, const struct sp_inst *i, struct access *a)
{
    uint32_t word3 = (uint32_t)(sp_s64(w, i, i->sbase + 2u) >> 32), number = word3 >> 12 & (w->generation == 10 ? 127 : 63);
    const struct group *g = groups;
    while (i->op < g->first || i->op > g->first + (g->one ? 0 : 3)) g++;
    a->group = g;
    a->how = sp_wave_load_access(w, i);
    a->count = i->op - g->first + 1u;
    a->undefined = 0;
    a->dst_sel = word3 & 0xFFF;
    if (i->format == SP_FORMAT_MTBUF) {
        number = i->buf_format;
        a->dst_sel = IDENTITY;
    }
    if (!sp_texel_format(w->generation, false, number, &a->format))
        return sp_wave_fault(w, SP_FAULT_OPERAND, "%s: there is no buffer format %u", sp_wave_op_name(i->op), number);
    if (i->lds && i->op != SP_OP_BUFFER_LOAD_FORMAT_X)
        return sp_wave_fault(w, SP_FAULT_OPERAND, "%s: only FORMAT_X reaches LDS", sp_wave_op_name(i->op));
    a->step = sp_buffer_step(w, i);
    a->inside = sp_buffer_addresses(w, i, a->format.nbytes, a->va, NULL) & w->exec;
    if (!a->format.nbytes) a->inside = 0;
    for (uint64_t left = a->inside; left; left &= left - 1) {
        uint64_t va = a->va[__builtin_ctzll(left)];
        if (va % a->format.align)
            return sp_wave_fault(w, SP_FAULT_ALIGNMENT, "%s at 0x%llx, not a multiple of %u", sp_wave_op_name(i->op),
                                 (unsigned long long)va, a->format.align);
    }
    return (int)w->stop;
}

/* Reads the element of one lane, dword by dword: in a swizzled buffer the dwords of an element need
 * not be adjacent. */
static int element(struct sp_wave *w, struct access *a, uint32_t lane, uint8_t *bytes)
{
    uint64_t va = a->va[lane];
    for (uint32_t at = 0; at < a->format.nbytes; at += 4, va += a->step) {
        uint32_t nbytes = a->format.nbytes - at < 4 ? a->format.nbytes - at : 4;
        int rc = sp_emu_read_as(w->tlb, va, bytes + at, nbytes, a->how);
        if (rc) return rc;
        if (sp_emu_poison_in(w->tlb, va, nbytes, a->how) != SP_NO_POISON) a->undefined |= UINT64_C(1) << lane;
    }
    return 0;
}

static int typed_load(struct sp_wave *w, const struct sp_inst *i)
{
    struct access a;
    uint32_t r[4][SP_LANES], dwords;
    if (begin(w, i, &a)) return SP_WAVE_FAULT;
    dwords = a.group->d16 ? (a.count + 1) / 2 : a.count;
    /* D16 fills only half of a register: keeps the other half */
    for (uint32_t k = 0; k < dwords; k++) memcpy(r[k], w->v[(i->dst + k) & 255], sizeof r[k]);
    for (uint64_t left = w->exec; left; left &= left - 1) {
        uint32_t l = (uint32_t)__builtin_ctzll(left), channel[4] = {0};
        uint8_t bytes[16];
        if (a.inside >> l & 1) {
            if (element(w, &a, l, bytes)) return sp_wave_fault_at(w, l);
            sp_texel_unpack(&a.format, bytes, channel);
            if (!sp_texel_select(&a.format, a.dst_sel, channel))
                return sp_wave_fault(w, SP_FAULT_RESERVED, "%s: DST_SEL 0x%x is reserved", sp_wave_op_name(i->op), a.dst_sel);
        }
        for (uint32_t k = 0; k < a.count; k++) {
            uint32_t shift = a.group->high ? 16 : 16 * (k & 1), *to = &r[a.group->d16 ? k / 2 : k][l];
            *to = a.group->d16 ? (*to & ~(0xFFFFu << shift)) | sp_texel_to_d16(&a.format, channel[k]) << shift : channel[k];
        }
    }
    struct sp_race_lanes told = {a.va, a.inside, a.step, a.format.nbytes, 0, NULL, 0};
    if (w->race && sp_buffer_raced(w, i, sp_race_load(a.how), &told)) return SP_WAVE_FAULT;
    if (i->lds || i->op == SP_OP_BUFFER_LOAD_LDS_FORMAT_X) return sp_buffer_to_lds(w, i, r[0], a.undefined);
    for (uint32_t k = 0; k < dwords; k++) sp_put_loaded(w, i->dst + k, r[k]);
    sp_texels_begin(w, i, dwords, a.undefined, a.va);
    return 0;
}

int sp_texels_store(struct sp_wave *w, const struct sp_inst *i, struct sp_race_lanes *a, uint32_t (*texel)[SP_LANES],
                    int (*raced)(struct sp_wave *, const struct sp_inst *, enum sp_race_kind, const struct sp_race_lanes *))
{
    const uint32_t *const from[] = {texel[0], texel[1], texel[2], texel[3]};
    a->from = from;
    if (w->race && raced(w, i, SP_RACE_STORE, a)) return SP_WAVE_FAULT;
    for (uint64_t left = a->lanes; left; left &= left - 1) {
        uint32_t l = (uint32_t)__builtin_ctzll(left);
        for (uint32_t k = 0; 4 * k < a->nbytes; k++) {
            uint32_t nbytes = a->nbytes - 4 * k < 4 ? a->nbytes - 4 * k : 4;
            if (sp_emu_write(w->tlb, a->va[l] + k * a->step, &texel[k][l], nbytes)) return sp_wave_fault_at(w, l);
        }
    }
    w->vs_issued++;
    return 0;
}

static int typed_store(struct sp_wave *w, const struct sp_inst *i)
{
    struct access a;
    const uint32_t *from[4];
    uint32_t texel[4][SP_LANES];
    if (begin(w, i, &a)) return SP_WAVE_FAULT;
    for (uint32_t k = 0; k < (a.group->d16 ? (a.count + 1) / 2 : a.count); k++)
        from[k] = sp_vgpr_copied(w, i, SP_SRC_VGPR + ((i->src[1] + k) & 255));
    if (SP_UNLIKELY(w->stop)) return (int)w->stop;
    for (uint64_t left = a.inside; left; left &= left - 1) {
        uint32_t l = (uint32_t)__builtin_ctzll(left), channel[4] = {0};
        uint8_t bytes[16] = {0};
        for (uint32_t k = 0; k < a.count; k++) {
            uint32_t shift = a.group->high ? 16 : 16 * (k & 1);
            channel[k] = a.group->d16 ? sp_texel_from_d16(&a.format, from[k / 2][l] >> shift) : from[k][l];
        }
        sp_texel_unselect(a.dst_sel, channel);
        sp_texel_pack(&a.format, channel, bytes);
        for (uint32_t k = 0; k < 4; k++) memcpy(&texel[k][l], bytes + 4 * k, 4);
    }
    struct sp_race_lanes told = {a.va, a.inside, a.step, a.format.nbytes, 0, NULL, 0};
    return sp_texels_store(w, i, &told, texel, sp_buffer_raced);
}

#define GROUP(NAME, FN) {SP_OP_##NAME##X, FN}, {SP_OP_##NAME##XY, FN}, {SP_OP_##NAME##XYZ, FN}, {SP_OP_##NAME##XYZW, FN}
const struct sp_wave_op sp_wave_typed[] = {
    GROUP(BUFFER_LOAD_FORMAT_, typed_load),
    GROUP(BUFFER_LOAD_D16_FORMAT_, typed_load),
    GROUP(BUFFER_STORE_FORMAT_, typed_store),
    GROUP(BUFFER_STORE_D16_FORMAT_, typed_store),
    GROUP(TBUFFER_LOAD_FORMAT_, typed_load),
    GROUP(TBUFFER_LOAD_D16_FORMAT_, typed_load),
    GROUP(TBUFFER_STORE_FORMAT_, typed_store),
    GROUP(TBUFFER_STORE_D16_FORMAT_, typed_store),
    {SP_OP_BUFFER_LOAD_LDS_FORMAT_X, typed_load},
    {SP_OP_BUFFER_LOAD_D16_HI_FORMAT_X, typed_load},
    {SP_OP_BUFFER_STORE_D16_HI_FORMAT_X, typed_store},
    SP_OP_END};
