/* DISPATCH packets: finds the registers that they use, and checks that this job has programmed
 * them. launch.c interprets the registers. */
#include "launch.h"
#include "async_packets.h"
#include "gen/pm4_packets.h"
#include "gen/regs.h"
#include <errno.h>
#include <stdio.h>

enum { PGM_SHIFT = 8, ALL_SE = 8 };

static uint32_t sh(const struct sp_cp *cp, uint32_t offset)
{
    return cp->q->sh[offset];
}

static uint64_t sh_address(const struct sp_cp *cp, uint32_t low)
{
    return sp_emu_canonical(((uint64_t)sh(cp, low + 1) << 32 | sh(cp, low)) << PGM_SHIFT);
}

/* Returns the register COMPUTE_STATIC_THREAD_MGMT of shader engine `se`. SE0 and SE1, SE2 and SE3,
 * SE4 to SE7 have neighbouring registers; no simpler rule exists. */
static uint32_t thread_mgmt(uint32_t se)
{
    static const uint32_t at[ALL_SE] = {
        REG_COMPUTE_STATIC_THREAD_MGMT_SE0, REG_COMPUTE_STATIC_THREAD_MGMT_SE1, REG_COMPUTE_STATIC_THREAD_MGMT_SE2,
        REG_COMPUTE_STATIC_THREAD_MGMT_SE3, REG_COMPUTE_STATIC_THREAD_MGMT_SE4, REG_COMPUTE_STATIC_THREAD_MGMT_SE5,
        REG_COMPUTE_STATIC_THREAD_MGMT_SE6, REG_COMPUTE_STATIC_THREAD_MGMT_SE7,
    };
    return at[se];
}

static uint32_t engines(const struct sp_cp *cp)
{
    uint32_t most = cp->x->chip->generation >= 11 ? ALL_SE : ALL_SE / 2;
    return cp->x->chip->num_se < most ? cp->x->chip->num_se : most;
}

static int need(struct sp_cp *cp, uint32_t first, uint32_t count)
{
    for (uint32_t i = first; i < first + count; i++)
        if (!sp_cp_programmed(cp, i)) {
            const struct sp_register *reg = sp_emu_register(cp->x->chip->generation, SP_SPACE_SH, i);
            return sp_cp_fault(cp, SP_FAULT_DISPATCH, "%s was not programmed by this job, and holds %#x of another process",
                               reg != NULL ? reg->name : "?", sh(cp, i));
        }
    return 0;
}

/* Checks that this job has programmed every register that the dispatch uses. Registers keep their
 * values across jobs and processes, so any other register may hold a foreign value. */
static int check_programmed(struct sp_cp *cp, const struct sp_cp_launch *l)
{
    struct { uint32_t first, count; } wanted[] = {
        {REG_COMPUTE_NUM_THREAD_X, 3},
        {REG_COMPUTE_PGM_LO, 2},
        {REG_COMPUTE_PGM_RSRC1, 2},
        {REG_COMPUTE_PGM_RSRC3, 1},
        {REG_COMPUTE_RESOURCE_LIMITS, 1},
        {REG_COMPUTE_USER_ACCUM_0, 4},
        {REG_COMPUTE_START_X, sp_bits(l->initiator, COMPUTE_DISPATCH_INITIATOR_FORCE_START_AT_000) ? 0 : 3},
        {REG_COMPUTE_TMPRING_SIZE, sp_bits(l->rsrc2, COMPUTE_PGM_RSRC2_SCRATCH_EN)},
        {REG_COMPUTE_DISPATCH_TUNNEL, sp_bits(l->initiator, COMPUTE_DISPATCH_INITIATOR_TUNNEL_ENABLE)},
        {REG_COMPUTE_DISPATCH_INTERLEAVE, cp->x->chip->generation >= 11 ? 1 : 0},
        {REG_COMPUTE_DISPATCH_SCRATCH_BASE_LO,
         cp->x->chip->generation >= 11 ? 2 * sp_bits(l->rsrc2, COMPUTE_PGM_RSRC2_SCRATCH_EN) : 0},
    };
    int rc = 0;
    if (sp_cp_lenient(cp, SP_LENIENT_UNPROGRAMMED))
        return 0;
    for (size_t i = 0; rc == 0 && i < sizeof wanted / sizeof *wanted; i++)
        rc = need(cp, wanted[i].first, wanted[i].count);
    for (uint32_t se = 0; rc == 0 && se < engines(cp); se++)
        rc = need(cp, thread_mgmt(se), 1);
    return rc;
}

static int check_initiator(struct sp_cp *cp, uint32_t initiator)
{
    uint32_t unknown[] = {COMPUTE_DISPATCH_INITIATOR_ORDERED_APPEND_ENBL, COMPUTE_DISPATCH_INITIATOR_RESTORE,
                          COMPUTE_DISPATCH_INITIATOR_AMP_SHADER_EN};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        if ((initiator & sp_place_mask(unknown[i])) != 0)
            return sp_cp_fault(cp, SP_FAULT_DISPATCH, "initiator %#x: bit %#x is not modelled", initiator,
                               sp_place_mask(unknown[i]));
    if (!sp_bits(initiator, COMPUTE_DISPATCH_INITIATOR_COMPUTE_SHADER_EN))
        return sp_cp_fault(cp, SP_FAULT_DISPATCH, "initiator %#x lacks COMPUTE_SHADER_EN: nothing would run", initiator);
    if (cp->q->ip == SP_IP_GFX && !sp_get(cp->p, PM4_HEADER_SHADER_TYPE))
        return sp_cp_fault(cp, SP_FAULT_DISPATCH, "without the compute shader type in its header on a GFX queue");
    return 0;
}

static int check_engines(struct sp_cp *cp)
{
    uint32_t any = 0, interleave = sp_bits(sh(cp, REG_COMPUTE_DISPATCH_INTERLEAVE), COMPUTE_DISPATCH_INTERLEAVE_INTERLEAVE);
    if (sp_cp_lenient(cp, SP_LENIENT_UNPROGRAMMED))
        return 0;
    for (uint32_t se = 0; se < engines(cp); se++)
        any |= sh(cp, thread_mgmt(se));
    if (any == 0)
        return sp_cp_fault(cp, SP_FAULT_DISPATCH, "STATIC_THREAD_MGMT enables no CU of any of %u engines", engines(cp));
    if (cp->x->chip->generation >= 11 && interleave != 0 && interleave != 64 && interleave != 128 &&
        interleave != 256 && interleave != 512)
        return sp_cp_fault(cp, SP_FAULT_DISPATCH, "DISPATCH_INTERLEAVE %u is none of 0, 64, 128, 256, 512", interleave);
    return 0;
}

static void gather(const struct sp_cp *cp, struct sp_cp_launch *l, struct sp_emu_dispatch *d)
{
    int from_zero = (int)sp_bits(l->initiator, COMPUTE_DISPATCH_INITIATOR_FORCE_START_AT_000);
    for (uint32_t i = 0; i < 3; i++) {
        l->start[i] = from_zero ? 0 : sh(cp, REG_COMPUTE_START_X + i);
        l->group_size[i] = sp_bits(sh(cp, REG_COMPUTE_NUM_THREAD_X + i), COMPUTE_NUM_THREAD_X_FULL);
        l->partial_size[i] = sp_bits(sh(cp, REG_COMPUTE_NUM_THREAD_X + i), COMPUTE_NUM_THREAD_X_PARTIAL);
    }
    l->rsrc1 = sh(cp, REG_COMPUTE_PGM_RSRC1);
    l->rsrc2 = sh(cp, REG_COMPUTE_PGM_RSRC2);
    l->rsrc3 = sh(cp, REG_COMPUTE_PGM_RSRC3);
    l->tmpring_size = sh(cp, REG_COMPUTE_TMPRING_SIZE);
    d->code = sh_address(cp, REG_COMPUTE_PGM_LO);
    d->scratch_base = sh_address(cp, REG_COMPUTE_DISPATCH_SCRATCH_BASE_LO);
    for (uint32_t i = 0; i < 16; i++) {
        d->user_data[i] = sh(cp, REG_COMPUTE_USER_DATA_0 + i);
        d->user_data_set |= (uint32_t)sp_cp_programmed(cp, REG_COMPUTE_USER_DATA_0 + i) << i;
    }
}

static void trace(struct sp_cp *cp, const struct sp_cp_launch *l, const struct sp_emu_dispatch *d)
{
    sp_cp_trace(cp, "    groups %u..%u %u..%u %u..%u of %ux%ux%u (last %ux%ux%u) code %llx rsrc %x %x %x initiator %x",
                d->begin[0], d->end[0], d->begin[1], d->end[1], d->begin[2], d->end[2], d->size[0], d->size[1], d->size[2],
                d->last[0], d->last[1], d->last[2], (unsigned long long)d->code, l->rsrc1, l->rsrc2, l->rsrc3,
                l->initiator);
}

static int dispatch(struct sp_cp *cp, const uint32_t dims[3], uint32_t initiator)
{
    struct sp_cp_launch l = {.groups = {dims[0], dims[1], dims[2]}, .initiator = initiator};
    struct sp_emu_dispatch d = {0};
    int rc = check_initiator(cp, initiator);
    if (rc != 0)
        return rc;
    gather(cp, &l, &d);
    rc = check_programmed(cp, &l);
    if (rc == 0)
        rc = sp_cp_launch_decode(cp, &l, &d);
    if (rc == 0)
        rc = check_engines(cp);
    if (rc != 0 || d.end[0] == d.begin[0] || d.end[1] == d.begin[1] || d.end[2] == d.begin[2])
        return rc; /* no groups: nothing to run */
    trace(cp, &l, &d);
    int on_card = sp_emu_in_vram(&cp->x->tlb, d.code);
    *(on_card ? &cp->x->vram_dispatches : &cp->x->other_dispatches) += 1;
    if (on_card && sp_emu_flaw(cp->x->chip, SP_FLAW_CODE))
        return 0;
    rc = sp_async_dispatch(cp, &d);
    return rc != 0 ? rc : sp_cp_tick(cp, 1);
}

int sp_cp_dispatch_direct(struct sp_cp *cp)
{
    return dispatch(cp, cp->p + sp_place_dw(PM4_DISPATCH_DIRECT_DIM_X), sp_get(cp->p, PM4_DISPATCH_DIRECT_INITIATOR));
}

int sp_cp_dispatch_indirect(struct sp_cp *cp)
{
    int on_gfx = cp->q->ip == SP_IP_GFX;
    uint64_t va = on_gfx ? cp->q->base + sp_get(cp->p, PM4_DISPATCH_INDIRECT_GFX_OFFSET)
                         : sp_get64(cp->p, PM4_DISPATCH_INDIRECT_ADDR);
    uint32_t dims[3];
    if (va % 4 != 0)
        return sp_cp_fault(cp, SP_FAULT_ALIGNMENT, "counts at %#llx", (unsigned long long)va);
    int rc = sp_emu_read(&cp->x->tlb, va, dims, sizeof dims);
    if (rc == 0)
        rc = sp_cp_written(cp, va, dims, sizeof dims);
    if (rc != 0)
        return rc;
    return dispatch(cp, dims,
                    sp_get(cp->p, on_gfx ? PM4_DISPATCH_INDIRECT_GFX_INITIATOR : PM4_DISPATCH_INDIRECT_INITIATOR));
}
