/* VOPD: two vector instructions in one (RDNA3, wave32). Both read their sources before either
 * writes. */
#include "emu/ops/poison/alu_poison.h"
#include "table.h"
#include <stddef.h>

/* Makes a separate instruction of each half of a VOPD. The decoder has already stored the opcodes
 * of these instructions in `op` and `opy`. */
int sp_vopd_split(struct sp_slot *slot)
{
    struct sp_inst *x = &slot->inst, *y = &slot->second;
    *y = *x;
    y->op = x->opy;
    y->dst = x->dsty;
    y->src[0] = x->srcy[0];
    y->src[1] = x->srcy[1];
    x->src[2] = y->src[2] = SP_VCC; /* V_DUAL_CNDMASK_B32 reads VCC */
    x->dst_ndw = y->dst_ndw = 1;
    slot->half[0] = sp_wave_function(x->op);
    slot->half[1] = sp_wave_function(y->op);
    return slot->half[0] && slot->half[1] ? 0 : -1;
}

static bool reads(const struct sp_inst *i, uint32_t vgpr)
{
    return i->src[0] == vgpr || i->src[1] == vgpr;
}

int sp_wave_vopd(struct sp_wave *w, const struct sp_inst *i)
{
    const struct sp_slot *slot = (const struct sp_slot *)(const void *)((const char *)i - offsetof(struct sp_slot, inst));
    const struct sp_inst *y = &slot->second;
    uint32_t r = i->dst & 255, old[32], new[32];
    int rc;
    if (w->lanes != 32) return sp_wave_fault(w, SP_FAULT_OPERAND, "VOPD in a wave64");
    if (!reads(y, i->dst)) {
        rc = sp_wave_call(w, i, slot->half[0]);
        return rc ? rc : sp_wave_call(w, y, slot->half[1]);
    }
    uint64_t ready = w->vgpr_ready[r];
    memcpy(old, w->v[r], sizeof old);
    rc = sp_wave_call(w, i, slot->half[0]);
    if (rc) return rc;
    uint64_t ready_after = w->vgpr_ready[r];
    memcpy(new, w->v[r], sizeof new);
    memcpy(w->v[r], old, sizeof old);
    w->vgpr_ready[r] = ready;
    rc = sp_wave_call(w, y, slot->half[1]);
    memcpy(w->v[r], new, sizeof new);
    w->vgpr_ready[r] = ready_after;
    return rc;
}
