/* MIMG: image loads, stores, atomics and queries. They access whole texels; filtering is not
 * modelled. Sources: "Image Memory Instructions" of AMD's RDNA2 and RDNA3 ISA documents.
 *
 * A load with a coordinate out of range gives zeros, but components for which DST_SEL selects 1 are
 * 1. A store with such a coordinate does nothing. Vulkan's robustImageAccess2, which RADV promises,
 * needs that. */
#include "emu/ops/families.h"
#include "image.h"

enum { MOST_COORDINATES = 4, DIM_1D_ARRAY = 4, DIM_2D_MSAA = 6 };

/* has_level returns true if the instruction with this opcode chooses a mip level. is_packed returns
 * true if it keeps the texel's format in registers (_PCK). */
static bool has_level(uint32_t op)
{
    switch (op) {
    case SP_OP_IMAGE_LOAD_MIP:
    case SP_OP_IMAGE_LOAD_MIP_PCK:
    case SP_OP_IMAGE_LOAD_MIP_PCK_SGN:
    case SP_OP_IMAGE_STORE_MIP:
    case SP_OP_IMAGE_STORE_MIP_PCK: return true;
    default: return false;
    }
}

static bool is_packed(uint32_t op)
{
    switch (op) {
    case SP_OP_IMAGE_LOAD_PCK:
    case SP_OP_IMAGE_LOAD_PCK_SGN:
    case SP_OP_IMAGE_LOAD_MIP_PCK:
    case SP_OP_IMAGE_LOAD_MIP_PCK_SGN:
    case SP_OP_IMAGE_STORE_PCK:
    case SP_OP_IMAGE_STORE_MIP_PCK: return true;
    default: return false;
    }
}

struct access {
    struct sp_image image;
    /* registers with coordinates; with A16, two coordinates in each */
    const uint32_t *coordinate[MOST_COORDINATES];
    uint32_t coordinates;
    uint32_t level_now; /* number of the mip level that `level` describes */
    struct sp_level level;
};

static int check_vgprs(struct sp_wave *w, const struct sp_inst *i, uint32_t first, uint32_t count)
{
    if (first + count <= w->vgpr_count) return 0;
    return sp_wave_fault(w, SP_FAULT_OPERAND, "%s uses v%u, the wave has %u VGPRs", sp_wave_op_name(i->op), first + count - 1,
                         w->vgpr_count);
}

static int begin(struct sp_wave *w, const struct sp_inst *i, uint32_t coordinates, struct access *a)
{
    a->level_now = UINT32_MAX;
    a->coordinates = coordinates;
    if (i->tfe || i->lwe || i->r128)
        return sp_wave_fault(w, SP_FAULT_OPERAND, "%s: TFE, LWE and R128 are not modelled", sp_wave_op_name(i->op));
    if (sp_image_of(w, i, &a->image)) return SP_WAVE_FAULT;
    if (i->dim >= DIM_2D_MSAA)
        return sp_wave_fault(w, SP_FAULT_OPERAND, "%s: DIM %u, several samples, is not modelled", sp_wave_op_name(i->op), i->dim);
    uint32_t registers = i->a16 ? (coordinates + 1) / 2 : coordinates;
    if (i->nsa && registers > 1u + 4u * i->nsa)
        return sp_wave_fault(w, SP_FAULT_OPERAND, "%s needs %u address registers, NSA names %u", sp_wave_op_name(i->op),
                             registers, 1u + 4u * i->nsa);
    for (uint32_t k = 0; k < registers; k++) {
        uint32_t r = k && i->nsa ? i->more_vaddr[k - 1] : (i->src[0] & 255) + k;
        if (check_vgprs(w, i, r, 1)) return SP_WAVE_FAULT;
        a->coordinate[k] = sp_vgpr(w, i, SP_SRC_VGPR + r);
    }
    return (int)w->stop;
}

static uint32_t coordinates_of(const struct sp_inst *i)
{
    /* number of coordinates by DIM: 1D, 2D, 3D, cube, arrays of 1D and 2D */
    static const uint8_t of_dim[8] = {1, 2, 3, 3, 2, 3};
    return of_dim[i->dim] + (has_level(i->op) ? 1u : 0u);
}

static uint32_t coordinate(const struct sp_inst *i, const struct access *a, uint32_t k, uint32_t lane)
{
    return i->a16 ? a->coordinate[k / 2][lane] >> 16 * (k & 1) & 0xFFFF : a->coordinate[k][lane];
}

/* Computes the address of a lane's texel. Returns false if a coordinate is out of range. */
static bool locate(const struct sp_inst *i, struct access *a, uint32_t lane, uint64_t *va)
{
    const struct sp_image *m = &a->image;
    uint32_t at[3] = {0, 0, 0}, count = a->coordinates, level = m->base_level;
    if (m->type == SP_IMAGE_NONE) return false;
    if (has_level(i->op)) {
        uint32_t asked = coordinate(i, a, --count, lane);
        if (asked > m->last_level - m->base_level) return false;
        level += asked;
    }
    for (uint32_t k = 0; k < count; k++) at[k] = coordinate(i, a, k, lane);
    if (i->dim == DIM_1D_ARRAY) {
        at[2] = at[1];
        at[1] = 0;
    }
    if (level != a->level_now) {
        sp_image_level(m, level, &a->level);
        a->level_now = level;
    }
    if (m->type != SP_IMAGE_3D) {
        if (at[2] > m->size[2]) return false;
        at[2] += m->first_layer;
    }
    if (at[0] >= a->level.size[0] || at[1] >= a->level.size[1] || at[2] >= a->level.size[2]) return false;
    *va = sp_image_texel(m, &a->level, at);
    return true;
}

/* Returns the number of data registers: one for each component in DMASK; with D16, one for two
 * components. */
static uint32_t registers_of(const struct sp_inst *i)
{
    uint32_t components = (uint32_t)__builtin_popcount(i->dmask);
    return i->d16 ? (components + 1) / 2 : components;
}

static int check_data(struct sp_wave *w, const struct sp_inst *i)
{
    if (!i->dmask) return sp_wave_fault(w, SP_FAULT_OPERAND, "%s: DMASK is 0", sp_wave_op_name(i->op));
    return check_vgprs(w, i, i->dst & 255, registers_of(i));
}

/* Converts a texel for the _PCK instructions: the dwords stay as they are in memory. With `sign` a
 * byte or word is sign-extended. */
static void raw_texel(const struct sp_texel_format *f, bool sign, const uint8_t *bytes, uint32_t channel[4])
{
    memset(channel, 0, 4 * sizeof *channel);
    memcpy(channel, bytes, f->nbytes);
    if (sign && f->nbytes < 4) channel[0] = f->nbytes == 1 ? (uint32_t)(int8_t)channel[0] : (uint32_t)(int16_t)channel[0];
}

static int loaded(struct sp_wave *w, const struct sp_inst *i, uint32_t r[4][SP_LANES], uint64_t undefined, const uint64_t *va)
{
    for (uint32_t k = 0; k < registers_of(i); k++) sp_put_loaded(w, i->dst + k, r[k]);
    sp_texels_begin(w, i, registers_of(i), undefined, va);
    return 0;
}

static int load(struct sp_wave *w, const struct sp_inst *i)
{
    struct access a;
    uint32_t r[4][SP_LANES];
    uint64_t va[SP_LANES], undefined = 0, there_all = 0;
    uint32_t how = sp_wave_load_access(w, i);
    bool sign = i->op == SP_OP_IMAGE_LOAD_PCK_SGN || i->op == SP_OP_IMAGE_LOAD_MIP_PCK_SGN;
    if (check_data(w, i) || begin(w, i, coordinates_of(i), &a)) return SP_WAVE_FAULT;
    const struct sp_texel_format *f = &a.image.format;
    memset(r, 0, sizeof r);
    for (uint64_t left = w->exec; left; left &= left - 1) {
        uint32_t l = (uint32_t)__builtin_ctzll(left), channel[4], n = 0;
        uint8_t bytes[16] = {0};
        bool there = locate(i, &a, l, &va[l]);
        there_all |= (uint64_t)there << l;
        if (there && sp_emu_read_as(w->tlb, va[l], bytes, f->nbytes, how)) return sp_wave_fault_at(w, l);
        if (there && sp_emu_poison_in(w->tlb, va[l], f->nbytes, how) != SP_NO_POISON) undefined |= UINT64_C(1) << l;
        if (is_packed(i->op)) {
            raw_texel(f, sign, bytes, channel);
        } else {
            sp_texel_unpack(f, bytes, channel);
            if (!sp_texel_select(f, a.image.dst_sel, channel))
                return sp_wave_fault(w, SP_FAULT_RESERVED, "%s: DST_SEL 0x%x is reserved", sp_wave_op_name(i->op),
                                     a.image.dst_sel);
        }
        for (uint32_t c = 0; c < 4; c++) {
            if (!(i->dmask >> c & 1)) continue;
            if (i->d16)
                r[n / 2][l] |= sp_texel_to_d16(f, channel[c]) << 16 * (n & 1);
            else
                r[n][l] = channel[c];
            n++;
        }
    }
    struct sp_race_lanes told = {va, there_all, 4, f->nbytes, 0, NULL, 0};
    if (w->race && sp_race_memory(w, i, sp_race_load(how), &told)) return SP_WAVE_FAULT;
    return loaded(w, i, r, undefined, va);
}

static int store(struct sp_wave *w, const struct sp_inst *i)
{
    struct access a;
    const uint32_t *from[4];
    uint32_t texel[4][SP_LANES];
    uint64_t va[SP_LANES], there = 0;
    if (check_data(w, i) || begin(w, i, coordinates_of(i), &a)) return SP_WAVE_FAULT;
    const struct sp_texel_format *f = &a.image.format;
    for (uint32_t k = 0; k < registers_of(i); k++) from[k] = sp_vgpr_copied(w, i, SP_SRC_VGPR + ((i->src[1] + k) & 255));
    if (SP_UNLIKELY(w->stop)) return (int)w->stop;
    if (f->row.number == SP_NUMBER_SHARED_EXPONENT)
        return sp_wave_fault(w, SP_FAULT_OPERAND, "%s: a store cannot write 5_9_9_9", sp_wave_op_name(i->op));
    for (uint64_t left = w->exec; left; left &= left - 1) {
        uint32_t l = (uint32_t)__builtin_ctzll(left), channel[4] = {0}, n = 0;
        uint8_t bytes[16] = {0};
        if (!locate(i, &a, l, &va[l])) continue;
        for (uint32_t c = 0; c < 4; c++) {
            if (!(i->dmask >> c & 1)) continue;
            channel[c] = i->d16 ? sp_texel_from_d16(f, from[n / 2][l] >> 16 * (n & 1)) : from[n][l];
            n++;
        }
        if (is_packed(i->op)) {
            memcpy(bytes, channel, sizeof bytes);
        } else {
            sp_texel_unselect(a.image.dst_sel, channel);
            sp_texel_pack(f, channel, bytes);
        }
        there |= UINT64_C(1) << l;
        for (uint32_t k = 0; k < 4; k++) memcpy(&texel[k][l], bytes + 4 * k, 4);
    }
    return sp_texels_store(w, i, &(struct sp_race_lanes){va, there, 4, f->nbytes, 0, NULL, 0}, texel, sp_race_memory);
}

static enum sp_atomic atomic_of(uint32_t op)
{
    switch (op) {
    case SP_OP_IMAGE_ATOMIC_SWAP: return SP_ATOMIC_SWAP;
    case SP_OP_IMAGE_ATOMIC_CMPSWAP: return SP_ATOMIC_CMPSWAP;
    case SP_OP_IMAGE_ATOMIC_ADD: return SP_ATOMIC_ADD;
    case SP_OP_IMAGE_ATOMIC_SUB: return SP_ATOMIC_SUB;
    case SP_OP_IMAGE_ATOMIC_SMIN: return SP_ATOMIC_SMIN;
    case SP_OP_IMAGE_ATOMIC_UMIN: return SP_ATOMIC_UMIN;
    case SP_OP_IMAGE_ATOMIC_SMAX: return SP_ATOMIC_SMAX;
    case SP_OP_IMAGE_ATOMIC_UMAX: return SP_ATOMIC_UMAX;
    case SP_OP_IMAGE_ATOMIC_AND: return SP_ATOMIC_AND;
    case SP_OP_IMAGE_ATOMIC_OR: return SP_ATOMIC_OR;
    case SP_OP_IMAGE_ATOMIC_XOR: return SP_ATOMIC_XOR;
    case SP_OP_IMAGE_ATOMIC_INC: return SP_ATOMIC_INC;
    case SP_OP_IMAGE_ATOMIC_DEC: return SP_ATOMIC_DEC;
    case SP_OP_IMAGE_ATOMIC_FCMPSWAP: return SP_ATOMIC_FCMPSWAP;
    case SP_OP_IMAGE_ATOMIC_FMIN: return SP_ATOMIC_FMIN;
    default: return SP_ATOMIC_FMAX;
    }
}

/* Executes an image atomic. DMASK has a bit for each dword of the data: one or two, twice as many
 * for a comparison. Atomics support only formats of 32 and 64 bits. */
static int atomic(struct sp_wave *w, const struct sp_inst *i)
{
    struct access a;
    struct sp_atomic_lanes lanes;
    enum sp_atomic op = atomic_of(i->op);
    uint32_t dwords = (uint32_t)__builtin_popcount(i->dmask), each = dwords;
    if (op == SP_ATOMIC_CMPSWAP || op == SP_ATOMIC_FCMPSWAP) each /= 2;
    if (check_data(w, i) || begin(w, i, coordinates_of(i), &a)) return SP_WAVE_FAULT;
    uint32_t nbytes = 4 * each;
    if (i->dmask != (1u << dwords) - 1 || i->d16 || (nbytes != 4 && nbytes != 8) ||
        (a.image.type != SP_IMAGE_NONE && a.image.format.nbytes != nbytes))
        return sp_wave_fault(w, SP_FAULT_OPERAND, "%s: DMASK 0x%x for texels of %u bytes", sp_wave_op_name(i->op), i->dmask,
                             a.image.format.nbytes);
    sp_atomic_gather(w, i, op, nbytes, &lanes);
    if (w->stop) return (int)w->stop;
    uint64_t va[SP_LANES];
    struct sp_race_lanes told = {va, 0, 4, nbytes, 0, NULL, 0};
    for (uint32_t l = 0; l < w->lanes; l++) told.lanes |= (uint64_t)((w->exec >> l & 1) && locate(i, &a, l, &va[l])) << l;
    if (w->race && sp_race_memory(w, i, sp_race_atomic(i), &told)) return SP_WAVE_FAULT;
    for (uint64_t left = w->exec; left; left &= left - 1) {
        uint32_t l = (uint32_t)__builtin_ctzll(left);
        uint64_t data[2], old = 0;
        sp_atomic_data(&lanes, l, data);
        if (told.lanes >> l & 1) {
            uint8_t *host = va[l] % nbytes ? NULL : sp_emu_at(w->tlb, va[l], SP_VM_READ | SP_VM_WRITE);
            if (!host || sp_atomic_place(w, i, l, va[l], nbytes, host)) return sp_wave_fault_at(w, l);
            old = sp_atomic_cached(w, va[l], op, nbytes, host, data);
        }
        sp_atomic_keep(&lanes, l, old);
    }
    if (w->race && i->glc) sp_race_acquires(w, &told);
    w->vs_issued += !i->glc;
    sp_atomic_return(w, i, &lanes, i->dst, SP_PEND_VM);
    return 0;
}

/* Executes IMAGE_GET_RESINFO: width, height, depth or layers of the requested level, and the number
 * of levels. A 1D array reports its layers as height. */
static int resinfo(struct sp_wave *w, const struct sp_inst *i)
{
    struct access a;
    uint32_t r[4][SP_LANES];
    if (check_data(w, i) || begin(w, i, 1, &a)) return SP_WAVE_FAULT;
    const struct sp_image *m = &a.image;
    memset(r, 0, sizeof r);
    for (uint64_t left = w->exec; left; left &= left - 1) {
        uint32_t l = (uint32_t)__builtin_ctzll(left), found[4] = {0}, n = 0, level = coordinate(i, &a, 0, l);
        if (m->type != SP_IMAGE_NONE && level <= m->last_level - m->base_level) {
            sp_image_level(m, m->base_level + level, &a.level);
            memcpy(found, a.level.size, sizeof a.level.size);
            if (m->type != SP_IMAGE_3D) found[2] -= m->first_layer;
            if (m->type == SP_IMAGE_1D_ARRAY) found[1] = found[2];
        }
        if (m->type != SP_IMAGE_NONE) found[3] = m->last_level - m->base_level + 1;
        for (uint32_t c = 0; c < 4; c++)
            if (i->dmask >> c & 1) r[n++][l] = found[c];
    }
    return loaded(w, i, r, 0, NULL);
}

const struct sp_wave_op sp_wave_image[] = {
    {SP_OP_IMAGE_LOAD, load},
    {SP_OP_IMAGE_LOAD_MIP, load},
    {SP_OP_IMAGE_LOAD_PCK, load},
    {SP_OP_IMAGE_LOAD_PCK_SGN, load},
    {SP_OP_IMAGE_LOAD_MIP_PCK, load},
    {SP_OP_IMAGE_LOAD_MIP_PCK_SGN, load},
    {SP_OP_IMAGE_STORE, store},
    {SP_OP_IMAGE_STORE_MIP, store},
    {SP_OP_IMAGE_STORE_PCK, store},
    {SP_OP_IMAGE_STORE_MIP_PCK, store},
    {SP_OP_IMAGE_ATOMIC_SWAP, atomic},
    {SP_OP_IMAGE_ATOMIC_CMPSWAP, atomic},
    {SP_OP_IMAGE_ATOMIC_ADD, atomic},
    {SP_OP_IMAGE_ATOMIC_SUB, atomic},
    {SP_OP_IMAGE_ATOMIC_SMIN, atomic},
    {SP_OP_IMAGE_ATOMIC_UMIN, atomic},
    {SP_OP_IMAGE_ATOMIC_SMAX, atomic},
    {SP_OP_IMAGE_ATOMIC_UMAX, atomic},
    {SP_OP_IMAGE_ATOMIC_AND, atomic},
    {SP_OP_IMAGE_ATOMIC_OR, atomic},
    {SP_OP_IMAGE_ATOMIC_XOR, atomic},
    {SP_OP_IMAGE_ATOMIC_INC, atomic},
    {SP_OP_IMAGE_ATOMIC_DEC, atomic},
    {SP_OP_IMAGE_ATOMIC_FCMPSWAP, atomic},
    {SP_OP_IMAGE_ATOMIC_FMIN, atomic},
    {SP_OP_IMAGE_ATOMIC_FMAX, atomic},
    {SP_OP_IMAGE_GET_RESINFO, resinfo},
    SP_OP_END};
