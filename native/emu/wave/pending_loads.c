/* Loads under way. Memory is read at once, but in strict mode the registers are ready only after
 * the s_waitcnt that hardware needs. VMEM loads complete in order by one counter, LDS loads by
 * another. SMEM and FLAT loads complete in any order, so only a wait for 0 completes them (RDNA2
 * ISA document, "Data dependency resolution"). */
#include "operand.h"
#include <stdio.h>

static void arrived(struct sp_wave *w, const struct sp_pending *p)
{
    for (uint32_t k = 0; k < p->count; k++) {
        uint32_t code = p->reg + k;
        if (code >= SP_SRC_VGPR)
            w->vgpr_ready[code & 255] |= p->lanes & ~p->undefined;
        else if (code < SP_SGPRS)
            w->sgpr_ready[code] = !p->undefined;
        if (w->origins || p->undefined) sp_wave_poisoned(w, code, p->undefined, p->lanes, p->why);
    }
}

static void not_arrived(struct sp_wave *w, const struct sp_pending *p)
{
    for (uint32_t k = 0; k < p->count; k++) {
        uint32_t code = p->reg + k;
        if (code >= SP_SRC_VGPR)
            w->vgpr_ready[code & 255] &= ~p->lanes;
        else if (code < SP_SGPRS)
            w->sgpr_ready[code] = 0;
    }
}

/* Removes pending load n, and moves the later ones up. Their order is kept: if two of them load one
 * register, the older one completes first. */
static void drop(struct sp_wave *w, uint32_t n)
{
    w->pending_count--;
    memmove(&w->pending[n], &w->pending[n + 1], (w->pending_count - n) * sizeof w->pending[0]);
}

static void add(struct sp_wave *w, enum sp_pending_kind kind, uint32_t reg, uint32_t count, uint64_t undefined, uint8_t why)
{
    if (!count || reg == SP_SRC_NULL) return;
    /* The list of pending loads is full. Counters of loads saturate at fewer loads, so hardware
     * would have made the wave wait before. Here the oldest load counts as completed. */
    if (w->pending_count == SP_PENDING) {
        arrived(w, &w->pending[0]);
        drop(w, 0);
    }
    uint32_t seq = kind == SP_PEND_LDS ? w->lds_issued : w->vm_issued;
    struct sp_pending *p = &w->pending[w->pending_count++];
    *p = (struct sp_pending){(uint8_t)kind, (uint8_t)count, (uint16_t)reg, seq, w->exec, undefined, why};
    not_arrived(w, p);
}

static void count(struct sp_wave *w, enum sp_pending_kind kind)
{
    if (kind == SP_PEND_VM || kind == SP_PEND_FLAT) w->vm_issued++;
    if (kind == SP_PEND_LDS) w->lds_issued++;
}

void sp_wave_load_begins(struct sp_wave *w, enum sp_pending_kind kind, uint32_t reg, uint32_t registers)
{
    count(w, kind);
    add(w, kind, reg, registers, 0, 0);
}

void sp_wave_poison_begins(struct sp_wave *w, enum sp_pending_kind kind, uint32_t reg, uint32_t registers,
                           const uint64_t *undefined, uint8_t why)
{
    count(w, kind);
    for (uint32_t k = 0; k < registers; k++) add(w, kind, reg == SP_SRC_NULL ? reg : reg + k, 1, undefined[k], why);
}

static bool is_done(const struct sp_wave *w, const struct sp_pending *p, bool vm, uint32_t at_most)
{
    switch (p->kind) {
    case SP_PEND_VM: return vm && at_most <= w->vm_issued - p->seq;
    case SP_PEND_LDS: return !vm && at_most <= w->lds_issued - p->seq;
    case SP_PEND_SMEM: return !vm && at_most == 0;
    default: return at_most == 0;
    }
}

/* Completes the loads for which a wave waits by one counter: VMCNT if `vm`, else LGKMCNT. At most
 * `at_most` operations of this counter may remain. A FLAT load counts in both counters, so it
 * completes only after a wait for each of them. After the first wait it gets another kind, which
 * only the other counter counts. If two loads fill the halves of a register, the register is ready
 * after the later one. */
static void wait(struct sp_wave *w, bool vm, uint32_t at_most)
{
    for (uint32_t n = 0; n < w->pending_count;) {
        struct sp_pending *p = &w->pending[n];
        if (!is_done(w, p, vm, at_most)) {
            n++;
        } else if (p->kind == SP_PEND_FLAT) {
            p->kind = vm ? SP_PEND_SMEM : SP_PEND_VM;
            n++;
        } else {
            arrived(w, p);
            drop(w, n);
        }
    }
    for (uint32_t n = 0; n < w->pending_count; n++) not_arrived(w, &w->pending[n]);
}

void sp_wave_wait_vm(struct sp_wave *w, uint32_t at_most)
{
    sp_wave_waited(&w->vm_waited, w->vm_issued, at_most);
    if (w->pending_count) wait(w, true, at_most);
}

void sp_wave_wait_lgkm(struct sp_wave *w, uint32_t at_most)
{
    sp_wave_waited(&w->lds_waited, w->lds_issued, at_most);
    if (w->pending_count) wait(w, false, at_most);
}

bool sp_wave_is_pending(const struct sp_wave *w, uint32_t reg)
{
    for (uint32_t n = 0; n < w->pending_count; n++) {
        const struct sp_pending *p = &w->pending[n];
        bool vector = p->reg >= SP_SRC_VGPR;
        if (reg >= p->reg && reg < (uint32_t)p->reg + p->count && (!vector || (p->lanes & w->exec))) return true;
    }
    return false;
}

int sp_wave_decides(struct sp_wave *w, const struct sp_inst *i, uint32_t reg)
{
    char name[16], why[176];
    return sp_wave_fault(w, SP_FAULT_UNINITIALISED, "%s reads %s, %s", sp_wave_op_name(i->op),
                         sp_wave_reg_name(reg, name, sizeof name), sp_wave_why(w, reg, why, sizeof why));
}

static void not_ready(struct sp_wave *w, const struct sp_inst *i, uint32_t reg, bool by_lane)
{
    char name[16];
    if (w->stop == SP_WAVE_FAULT) return;
    if (sp_wave_is_pending(w, reg)) {
        sp_wave_fault(w, SP_FAULT_UNINITIALISED, "%s reads %s before the s_waitcnt of its load", sp_wave_op_name(i->op),
                      sp_wave_reg_name(reg, name, sizeof name));
        return;
    }
    if (!w->strict || w->spreading || w->stop) return;
    if (!by_lane && reg >= SP_SRC_VGPR && !(sp_wave_undefined_lanes(w, reg) & w->exec)) return;
    w->stop = SP_WAVE_POISON;
    w->poison_reg = reg;
    w->poison_scc = w->scc;
    w->poison_by_lane = by_lane;
}

void sp_wave_not_ready(struct sp_wave *w, const struct sp_inst *i, uint32_t reg) { not_ready(w, i, reg, false); }
void sp_wave_not_copied(struct sp_wave *w, const struct sp_inst *i, uint32_t reg) { not_ready(w, i, reg, true); }

/* Raises a fault if a result would go to a register whose load is under way: the load would
 * overwrite the result. */
void sp_wave_overtaken(struct sp_wave *w, const struct sp_inst *i, uint32_t reg)
{
    char name[16];
    if (w->stop || !sp_wave_is_pending(w, reg)) return;
    sp_wave_fault(w, SP_FAULT_UNINITIALISED, "%s writes %s before the s_waitcnt of its load", sp_wave_op_name(i->op),
                  sp_wave_reg_name(reg, name, sizeof name));
}
