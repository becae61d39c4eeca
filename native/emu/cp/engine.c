#include "engine.h"
#include "gen/pm4_packets.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

enum { TICK_PACKETS = 64, POLL_NS = 20000 };

static const char *const ip_names[] = {"gfx", "compute", "sdma"};

int sp_cp_fault(struct sp_cp *cp, uint32_t kind, const char *format, ...)
{
    struct sp_emu_fault *fault = &cp->x->fault;
    char text[sizeof fault->text];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (fault->kind == SP_FAULT_NONE)
        fault->va = cp->va;
    cp->named = 1;
    return sp_emu_fault_set(fault, kind, kind == SP_FAULT_TIMEOUT ? -ETIME : -EFAULT, "%s %s at %#llx: %s",
                            ip_names[cp->q->ip], cp->desc != NULL ? cp->desc->name : "IB",
                            (unsigned long long)cp->va, text);
}

int sp_cp_name_fault(struct sp_cp *cp, int rc)
{
    struct sp_emu_fault *fault = &cp->x->fault;
    size_t length = strlen(fault->text);
    if (rc == -EFAULT && !cp->named && fault->pc == 0)
        snprintf(fault->text + length, sizeof fault->text - length, " (%s %s at %#llx)", ip_names[cp->q->ip],
                 cp->desc != NULL ? cp->desc->name : "IB", (unsigned long long)cp->va);
    cp->named = 1;
    return rc;
}

int sp_cp_check(struct sp_cp *cp)
{
    for (uint32_t i = 0; i < cp->desc->fixed && i < cp->ndw; i++) {
        uint32_t odd = cp->p[i] & ~cp->desc->allowed[i];
        uint32_t is_address = cp->desc->addresses >> i & 1;
        if (odd != 0 && is_address)
            return sp_cp_fault(cp, SP_FAULT_ALIGNMENT, "dword %u: address %#x is not aligned, bits %#x must be 0", i,
                               cp->p[i], odd);
        if (odd != 0 && !sp_cp_lenient(cp, SP_LENIENT_RESERVED))
            return sp_cp_fault(cp, SP_FAULT_RESERVED, "dword %u is %#x: bits %#x are reserved on gfx%u", i, cp->p[i], odd,
                               cp->x->chip->generation);
        if (is_address && !sp_emu_is_address((uint64_t)cp->p[i + 1] << 32 | cp->p[i]))
            return sp_cp_fault(cp, SP_FAULT_RESERVED, "dwords %u and %u: expected a 48-bit address, got %#x %#x", i, i + 1,
                               cp->p[i], cp->p[i + 1]);
    }
    return 0;
}

int sp_cp_tick(struct sp_cp *cp, int now)
{
    struct sp_emu_exec *x = cp->x;
    if (x->cancel != NULL && __atomic_load_n(x->cancel, __ATOMIC_ACQUIRE) != 0)
        return -ECANCELED;
    if ((!now && ++cp->packets % TICK_PACKETS != 0) || !sp_emu_worked(x, &x->cpu_ns))
        return 0;
    return sp_cp_fault(cp, SP_FAULT_TIMEOUT, "the job's time is over");
}

int sp_cp_pause(struct sp_cp *cp)
{
    const struct timespec nap = {0, POLL_NS};
    int rc = sp_cp_tick(cp, 1);
    if (rc == 0) {
        nanosleep(&nap, NULL);
        __atomic_add_fetch(&cp->x->worked_ns, POLL_NS, __ATOMIC_RELAXED);
    }
    return rc;
}

void sp_cp_trace(struct sp_cp *cp, const char *format, ...)
{
    char line[256];
    va_list list;
    if (cp->x->trace == NULL)
        return;
    va_start(list, format);
    vsnprintf(line, sizeof line, format, list);
    va_end(list);
    cp->x->trace(cp->x->trace_self, line);
}

/* Traces a packet in the format of captures of real drivers: the header, then as many dwords as fit
 * into a line. */
void sp_cp_trace_packet(struct sp_cp *cp)
{
    char line[256];
    if (cp->x->trace == NULL)
        return;
    size_t at = (size_t)snprintf(line, sizeof line, "  %-18s hdr=%08x", cp->desc->name, cp->p[0]);
    for (uint32_t i = 1; i < cp->ndw && i < SP_CP_PACKET_MAX && at + 10 < sizeof line; i++)
        at += (size_t)snprintf(line + at, sizeof line - at, " %08x", cp->p[i]);
    cp->x->trace(cp->x->trace_self, line);
}
