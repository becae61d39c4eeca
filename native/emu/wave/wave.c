/* Functions that any instruction may need: names of registers, faults with their place, the clock,
 * which caches a load bypasses, and the host's rounding. */
#include "wave.h"
#include <fenv.h>
#include <stdarg.h>
#include <stdio.h>

const char *sp_wave_reg_name(uint32_t reg, char *to, size_t nbytes)
{
    if (reg >= SP_SRC_VGPR)
        snprintf(to, nbytes, "v%u", reg - SP_SRC_VGPR);
    else if (reg == SP_VCC || reg == SP_VCC + 1)
        return reg == SP_VCC ? "vcc_lo" : "vcc_hi";
    else if (reg == SP_SRC_M0)
        return "m0";
    else if (reg == SP_SRC_SCC)
        return "scc";
    else if (reg >= SP_EXEC)
        return reg == SP_EXEC ? "exec_lo" : "exec_hi";
    else
        snprintf(to, nbytes, "s%u", reg);
    return to;
}

int sp_wave_fault(struct sp_wave *w, uint32_t kind, const char *format, ...)
{
    char text[sizeof w->fault->text];
    va_list list;
    w->stop = SP_WAVE_FAULT;
    if (w->fault->kind != SP_FAULT_NONE) return SP_WAVE_FAULT;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    sp_emu_fault_set(w->fault, kind, -EFAULT, "%s", text);
    return sp_wave_fault_at(w, w->fault->lane);
}

int sp_wave_fault_at(struct sp_wave *w, uint32_t lane)
{
    w->fault->pc = w->pc;
    w->fault->wave = w->id;
    w->fault->lane = lane;
    memcpy(w->fault->group, w->group->id, sizeof w->fault->group);
    w->stop = SP_WAVE_FAULT;
    return SP_WAVE_FAULT;
}

uint64_t sp_wave_realtime(const struct sp_wave *w)
{
    return sp_emu_gpu_clock(w->x->chip);
}

/* Returns SP_VM_READ, and a bit that says which caches the load bypasses. GLC bypasses L0. It also
 * bypasses GL1, on gfx10 only together with DLC (LLVM, AMDGPUUsage, "Memory Model GFX10-GFX11"). */
uint32_t sp_wave_load_access(const struct sp_wave *w, const struct sp_inst *i)
{
    if (!i->glc) return SP_VM_READ;
    return SP_VM_READ | (w->generation == 11 || i->dlc ? SP_VM_DEVICE : SP_VM_PAST_L0);
}

/* Sets the host's rounding by two bits of FLOAT_MODE: 0 to nearest even, 1 to +inf, 2 to -inf, 3 to
 * zero. */
void sp_wave_rounding(uint32_t bits)
{
    static const int HOST[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    fesetround(HOST[bits & 3]);
}
