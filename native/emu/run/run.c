/* The main loop: runs one wave until it ends or waits, or its slice is over. */
#include "run.h"
#include "code.h"
#include "emu/ops/poison/alu_poison.h"
#include "emu/wave/operand.h"
#include <stdio.h>

static void trace(struct sp_wave *w, const struct sp_slot *slot)
{
    char line[160];
    snprintf(line, sizeof line, "group %u,%u,%u wave %u pc %llx exec %llx %s", w->group->id[0], w->group->id[1],
             w->group->id[2], w->id, (unsigned long long)w->pc, (unsigned long long)w->exec,
             sp_wave_op_name(slot->inst.op));
    w->x->trace(w->x->trace_self, line);
}

int sp_wave_run(struct sp_wave *w, uint64_t budget)
{
    struct sp_code_page *page = NULL;
    uint64_t done = 0, lane_ops = 0;
    int rc = 0;
    bool traced = w->x->trace != NULL;
    uint32_t rounding = w->mode & SP_MODE_ROUND32;
    if (rounding) sp_wave_rounding(rounding);
    while (done < budget && !rc) {
        uint64_t pc = w->next;
        w->pc = pc;
        if (SP_UNLIKELY(!page || (pc ^ page->va) >= SP_VM_PAGE)) {
            page = sp_code_page(w->code, pc);
            if (!page) {
                rc = sp_wave_fault(w, SP_FAULT_DISPATCH, "no memory for decoded code");
                break;
            }
        }
        if (SP_UNLIKELY(pc & 3)) {
            rc = sp_wave_fault(w, SP_FAULT_ALIGNMENT, "pc 0x%llx is no multiple of 4", (unsigned long long)pc);
            break;
        }
        struct sp_slot *slot = &page->slot[pc % SP_VM_PAGE / 4];
        if (SP_UNLIKELY(!slot->fn) && (rc = sp_code_fill(w, slot)) != 0) break;
        if (SP_UNLIKELY(traced)) trace(w, slot);
        w->next = pc + slot->inst.ndw * 4u;
        lane_ops += slot->vector ? w->active * slot->vector : 1;
        rc = slot->fn(w, &slot->inst);
        if (SP_UNLIKELY(w->stop)) rc = w->stop == SP_WAVE_POISON ? sp_wave_spread(w, &slot->inst, slot->fn) : (int)w->stop;
        done++;
    }
    if (w->mode & SP_MODE_ROUND32 || rounding) sp_wave_rounding(0);
    w->instructions += done;
    w->lane_ops += lane_ops;
    return rc;
}
