/* Decodes a dispatch's registers into struct sp_emu_dispatch. Values that would hang silicon are
 * faults. Sources: AMD's register database; LLVM's AMDGPU usage document, compute_pgm_rsrc1 and
 * 2. */
#include "launch.h"
#include "gen/pm4_packets.h"
#include "gen/regs.h"

enum { GROUP_THREADS_MAX = 1024, LDS_GRANULE = 512, LDS_MAX = 65536, USER_SGPR_MAX = 16, TIDIG_MAX = 2, VGPRS_MAX = 256 };
enum { MODE_FP_BITS = 8 }; /* FLOAT_MODE is MODE[7:0]; DX10_CLAMP and IEEE follow it */

static uint32_t lanes(const struct sp_cp_launch *l)
{
    return sp_bits(l->initiator, COMPUTE_DISPATCH_INITIATOR_CS_W32_EN) ? 32 : 64;
}

/* Returns the number of VGPRs of a lane. RSRC1 counts them in granules: 8 registers in a wave of 32
 * lanes, 4 in a wave of 64. */
static uint32_t vgprs(const struct sp_cp_launch *l)
{
    return (sp_bits(l->rsrc1, COMPUTE_PGM_RSRC1_VGPRS) + 1) * (lanes(l) == 32 ? 8 : 4);
}

static uint32_t lds_bytes(const struct sp_cp_launch *l)
{
    return sp_bits(l->rsrc2, COMPUTE_PGM_RSRC2_LDS_SIZE) * LDS_GRANULE;
}

/* Converts dimensions in threads to whole groups and a partial group at the end of each
 * dimension. */
static int from_threads(struct sp_cp *cp, struct sp_cp_launch *l)
{
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t threads = l->groups[i], size = l->group_size[i];
        if (l->start[i] != 0 || size == 0)
            return sp_cp_fault(cp, SP_FAULT_DISPATCH, "USE_THREAD_DIMENSIONS with START %u and NUM_THREAD %u", l->start[i],
                               size);
        l->groups[i] = threads / size + (threads % size != 0);
        l->partial_size[i] = threads % size != 0 ? threads % size : size;
    }
    l->initiator |= sp_place_mask(COMPUTE_DISPATCH_INITIATOR_PARTIAL_TG_EN);
    l->initiator &= ~sp_place_mask(COMPUTE_DISPATCH_INITIATOR_USE_THREAD_DIMENSIONS);
    return 0;
}

static int check_sizes(struct sp_cp *cp, const struct sp_cp_launch *l)
{
    uint64_t threads = 1;
    int partial = (int)sp_bits(l->initiator, COMPUTE_DISPATCH_INITIATOR_PARTIAL_TG_EN);
    for (uint32_t i = 0; i < 3; i++) {
        threads *= l->group_size[i];
        if (l->group_size[i] == 0 || threads > GROUP_THREADS_MAX)
            return sp_cp_fault(cp, SP_FAULT_DISPATCH, "NUM_THREAD %u x %u x %u: expected 1..%u threads in a group",
                               l->group_size[0], l->group_size[1], l->group_size[2], GROUP_THREADS_MAX);
        if (partial && (l->partial_size[i] == 0 || l->partial_size[i] > l->group_size[i]))
            return sp_cp_fault(cp, SP_FAULT_DISPATCH, "PARTIAL_TG_EN, and NUM_THREAD_%c PARTIAL is %u of %u", "XYZ"[i],
                               l->partial_size[i], l->group_size[i]);
        if (l->start[i] > l->groups[i])
            return sp_cp_fault(cp, SP_FAULT_DISPATCH, "START_%c %u is beyond the end value %u", "XYZ"[i], l->start[i],
                               l->groups[i]);
    }
    return 0;
}

static int check_resources(struct sp_cp *cp, const struct sp_cp_launch *l)
{
    uint32_t lds = lds_bytes(l);
    if (lds > LDS_MAX)
        return sp_cp_fault(cp, SP_FAULT_DISPATCH, "LDS_SIZE is %u bytes of %u", lds, LDS_MAX);
    if (sp_bits(l->rsrc1, COMPUTE_PGM_RSRC1_PRIV) && cp->x->chip->generation != 11)
        return sp_cp_fault(cp, SP_FAULT_DISPATCH, "RSRC1 PRIV is reserved for the kernel driver");
    if (vgprs(l) > VGPRS_MAX)
        return sp_cp_fault(cp, SP_FAULT_DISPATCH, "RSRC1 VGPRS %u is more than %u registers of a wave32",
                           sp_bits(l->rsrc1, COMPUTE_PGM_RSRC1_VGPRS), VGPRS_MAX);
    if (sp_bits(l->rsrc2, COMPUTE_PGM_RSRC2_USER_SGPR) > USER_SGPR_MAX)
        return sp_cp_fault(cp, SP_FAULT_DISPATCH, "RSRC2 USER_SGPR %u: there are %u",
                           sp_bits(l->rsrc2, COMPUTE_PGM_RSRC2_USER_SGPR), USER_SGPR_MAX);
    if (sp_bits(l->rsrc2, COMPUTE_PGM_RSRC2_TIDIG_COMP_CNT) > TIDIG_MAX)
        return sp_cp_fault(cp, SP_FAULT_DISPATCH, "RSRC2 TIDIG_COMP_CNT is 3");
    return 0;
}

/* Decodes TMPRING_SIZE. The unit of WAVESIZE is 1024 bytes on gfx10, 256 bytes on gfx11. On gfx10
 * WAVES is the limit of waves with scratch on the whole chip. The chip divides it among its shader
 * engines, so it must be a multiple of their number (ROCr asserts that, FillComputeTmpRingSize). On
 * gfx11 WAVES is the limit for each engine. All waves of a group run on one shader engine. So the
 * engine's limit must not be below the number of waves in a group: otherwise the hardware waits for
 * ever. */
static int decode_scratch(struct sp_cp *cp, const struct sp_cp_launch *l, struct sp_emu_dispatch *d)
{
    int gfx11 = cp->x->chip->generation >= 11;
    uint32_t waves = sp_bits(l->tmpring_size, COMPUTE_TMPRING_SIZE_WAVES);
    uint32_t size = sp_bits(l->tmpring_size,
                            gfx11 ? COMPUTE_TMPRING_SIZE_WAVESIZE_GFX11 : COMPUTE_TMPRING_SIZE_WAVESIZE);
    d->scratch = sp_bits(l->rsrc2, COMPUTE_PGM_RSRC2_SCRATCH_EN);
    if (!d->scratch)
        return 0;
    if (!sp_cp_lenient(cp, SP_LENIENT_UNPROGRAMMED) && (waves == 0 || size == 0))
        return sp_cp_fault(cp, SP_FAULT_DISPATCH, "RSRC2 SCRATCH_EN, and TMPRING_SIZE is %#x", l->tmpring_size);
    d->scratch_wave = (uint64_t)size * (gfx11 ? 256 : 1024);
    const uint32_t engines = cp->x->chip->num_se;
    const struct sp_emu_flaw_of *flaw = sp_emu_flaw(cp->x->chip, SP_FLAW_SLOTS);
    d->scratch_slots = waves * (gfx11 ? engines : 1);
    uint32_t slots = (gfx11 ? waves : waves / engines) / (flaw && flaw->a ? (uint32_t)flaw->a : 1);
    uint32_t group_waves = (d->size[0] * d->size[1] * d->size[2] + d->lanes - 1) / d->lanes;
    if (d->scratch_wave != 0 && !gfx11 && waves % engines != 0)
        return sp_cp_fault(cp, SP_FAULT_DISPATCH, "TMPRING_SIZE WAVES %u is no multiple of the %u shader engines", waves,
                           engines);
    if (d->scratch_wave != 0 && slots < group_waves)
        return sp_cp_fault(cp, SP_FAULT_DISPATCH,
                           "TMPRING_SIZE WAVES %u gives each of %u shader engines %u slots of scratch, and the %u waves of a "
                           "group need them in one engine: the group never starts",
                           waves, engines, slots, group_waves);
    return 0;
}

static void decode_sizes(const struct sp_cp_launch *l, struct sp_emu_dispatch *d)
{
    int partial = (int)sp_bits(l->initiator, COMPUTE_DISPATCH_INITIATOR_PARTIAL_TG_EN);
    for (uint32_t i = 0; i < 3; i++) {
        d->begin[i] = l->start[i];
        d->end[i] = l->groups[i];
        d->size[i] = l->group_size[i];
        d->last[i] = partial ? l->partial_size[i] : l->group_size[i];
    }
}

static void decode_resources(const struct sp_cp_launch *l, struct sp_emu_dispatch *d)
{
    d->lanes = lanes(l);
    d->vgprs = vgprs(l);
    d->lds_bytes = lds_bytes(l);
    d->wgp_mode = sp_bits(l->rsrc1, COMPUTE_PGM_RSRC1_WGP_MODE);
    d->mode = sp_bits(l->rsrc1, COMPUTE_PGM_RSRC1_FLOAT_MODE) |
              sp_bits(l->rsrc1, COMPUTE_PGM_RSRC1_DX10_CLAMP) << MODE_FP_BITS |
              sp_bits(l->rsrc1, COMPUTE_PGM_RSRC1_IEEE) << (MODE_FP_BITS + 1);
    d->user_sgprs = sp_bits(l->rsrc2, COMPUTE_PGM_RSRC2_USER_SGPR);
    d->thread_ids = sp_bits(l->rsrc2, COMPUTE_PGM_RSRC2_TIDIG_COMP_CNT) + 1;
    d->group_ids = sp_bits(l->rsrc2, COMPUTE_PGM_RSRC2_TGID_X_EN) | sp_bits(l->rsrc2, COMPUTE_PGM_RSRC2_TGID_Y_EN) << 1 |
                   sp_bits(l->rsrc2, COMPUTE_PGM_RSRC2_TGID_Z_EN) << 2;
    d->tg_size = sp_bits(l->rsrc2, COMPUTE_PGM_RSRC2_TG_SIZE_EN);
}

int sp_cp_launch_decode(struct sp_cp *cp, struct sp_cp_launch *l, struct sp_emu_dispatch *d)
{
    int rc = 0;
    if (sp_bits(l->initiator, COMPUTE_DISPATCH_INITIATOR_USE_THREAD_DIMENSIONS))
        rc = from_threads(cp, l);
    if (rc == 0)
        rc = check_sizes(cp, l);
    if (rc == 0)
        rc = check_resources(cp, l);
    if (rc != 0)
        return rc;
    decode_sizes(l, d);
    decode_resources(l, d);
    return decode_scratch(cp, l, d);
}
