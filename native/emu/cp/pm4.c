/* Walks an IB of a GFX or COMPUTE queue: checks headers, lengths, declared bits and nesting, and
 * calls one handler per packet. */
#include "async_packets.h"
#include "emu/memory/unit.h"
#include "gen/pm4_packets.h"
#include <errno.h>
#include <stdlib.h>

enum { IB_DEPTH_MAX = 1, BASE_INDIRECT = 1 };

static int run_ib(struct sp_cp *cp, uint64_t va, uint32_t ndw, uint32_t depth);

/* Skips `count` dwords after this packet. */
static int skip(struct sp_cp *cp, uint32_t count)
{
    if ((cp->end - cp->next) / 4 < count)
        return sp_cp_fault(cp, SP_FAULT_PACKET, "count %u reaches beyond the IB", count);
    cp->next += 4ull * count;
    return 0;
}

static int cond_exec(struct sp_cp *cp)
{
    uint64_t value;
    int rc = sp_cp_use(cp, sp_get64(cp->p, PM4_COND_EXEC_ADDR), 4, &value);
    return rc != 0 || value != 0 ? rc : skip(cp, sp_get(cp->p, PM4_COND_EXEC_EXECUTE_COUNT));
}

/* Executes PRED_EXEC. There is one device, number 0. If the device mask lacks bit 0, the dwords
 * that depend on the packet are skipped. */
static int pred_exec(struct sp_cp *cp)
{
    uint32_t devices = sp_get(cp->p, PM4_PRED_EXEC_EXECUTE_DEVICE_SELECT);
    return devices & 1 ? 0 : skip(cp, sp_get(cp->p, PM4_PRED_EXEC_EXECUTE_COUNT));
}

/* Checks the address of an IB. Every IB, even a nested or chained one, starts at a multiple of the
 * alignment that INFO HW_IP_INFO reports. The size of an IB may be any number of dwords, although
 * INFO says 32 bytes: the kernel driver tests each ring with an IB of 5 dwords (Linux gfx_v10_0.c
 * and gfx_v11_0.c, ring_test_ib). */
static int check_start(struct sp_cp *cp, uint64_t va, uint32_t ndw)
{
    if (sp_cp_lenient(cp, SP_LENIENT_PADDING) || va % SP_IB_START == 0)
        return 0;
    return sp_cp_fault(cp, SP_FAULT_IB, "expected an IB at a multiple of %u bytes, got %u dwords at %#llx", SP_IB_START,
                       ndw, (unsigned long long)va);
}

static int indirect_buffer(struct sp_cp *cp)
{
    uint64_t va = sp_emu_canonical(sp_get64(cp->p, PM4_INDIRECT_BUFFER_ADDR));
    uint32_t ndw = sp_get(cp->p, PM4_INDIRECT_BUFFER_CONTROL_NDW);
    if (!sp_get(cp->p, PM4_INDIRECT_BUFFER_CONTROL_VALID) && cp->q->ip == SP_IP_COMPUTE)
        return sp_cp_fault(cp, SP_FAULT_PACKET, "VALID is 0 on a compute queue");
    if (sp_get(cp->p, PM4_INDIRECT_BUFFER_CONTROL_VMID) != 0)
        return sp_cp_fault(cp, SP_FAULT_PACKET, "vmid %u: only the kernel driver chooses it",
                           sp_get(cp->p, PM4_INDIRECT_BUFFER_CONTROL_VMID));
    if (ndw == 0)
        return sp_cp_fault(cp, SP_FAULT_IB, "an IB of no dwords");
    int rc = check_start(cp, va, ndw);
    if (rc != 0)
        return rc;
    if (sp_get(cp->p, PM4_INDIRECT_BUFFER_CONTROL_CHAIN)) {
        sp_cp_trace(cp, "IB ip=%u depth=%u va=%llx ndw=%u", cp->q->ip, cp->depth, (unsigned long long)va, ndw);
        cp->next = va; /* the rest of this IB is never read */
        cp->end = va + 4ull * ndw;
        /* checks the deadline, because IBs that are chained in a circle never end by themselves */
        return sp_cp_tick(cp, 1);
    }
    if (cp->depth >= IB_DEPTH_MAX)
        return sp_cp_fault(cp, SP_FAULT_IB, "nested deeper than %u", IB_DEPTH_MAX);
    uint64_t next = cp->next, end = cp->end;
    uint32_t depth = cp->depth;
    rc = run_ib(cp, va, ndw, depth + 1);
    cp->next = next;
    cp->end = end;
    cp->depth = depth;
    return rc;
}

static int set_base(struct sp_cp *cp)
{
    if (sp_get(cp->p, PM4_SET_BASE_BASE_INDEX) != BASE_INDIRECT)
        return sp_cp_fault(cp, SP_FAULT_PACKET, "index %u: only 1, for indirect dispatches, is modelled",
                           sp_get(cp->p, PM4_SET_BASE_BASE_INDEX));
    cp->q->base = sp_get64(cp->p, PM4_SET_BASE_ADDR);
    return 0;
}

static int clear_state(struct sp_cp *cp)
{
    memset(cp->q->context, 0, sizeof cp->q->context);
    return 0;
}

static int context_control(struct sp_cp *cp)
{
    uint32_t update = sp_place_mask(PM4_CONTEXT_CONTROL_LOAD_UPDATE_ENABLES);
    uint32_t load = sp_get(cp->p, PM4_CONTEXT_CONTROL_LOAD), shadow = sp_get(cp->p, PM4_CONTEXT_CONTROL_SHADOW);
    if ((load | shadow) & ~update)
        return sp_cp_fault(cp, SP_FAULT_PACKET, "load %#x, shadow %#x: registers shadowed in memory are not modelled", load,
                           shadow);
    return 0;
}

/* The drawing engine waits until the constant engine's counter is above its own. The IB of the
 * constant engine comes first in a job, and has run before this packet: the wait is over, or lasts
 * until the job's time limit. */
static int wait_on_ce(struct sp_cp *cp)
{
    int rc = 0;
    while (rc == 0 && cp->q->ce_count <= cp->q->de_count) rc = sp_cp_pause(cp);
    return rc;
}

static int set_ce_de(struct sp_cp *cp)
{
    cp->q->ce_count = cp->q->de_count = sp_get(cp->p, PM4_SET_CE_DE_COUNTERS_COUNTERS_VALUE);
    return 0;
}

static int execute(struct sp_cp *cp)
{
    switch (cp->desc->code) {
    case PM4_NOP:
    case PM4_PFP_SYNC_ME: return 0;
    case PM4_SET_BASE: return set_base(cp);
    case PM4_CLEAR_STATE: return clear_state(cp);
    case PM4_CONTEXT_CONTROL: return context_control(cp);
    case PM4_DISPATCH_DIRECT: return sp_cp_dispatch_direct(cp);
    case PM4_DISPATCH_INDIRECT: return sp_cp_dispatch_indirect(cp);
    case PM4_ATOMIC_MEM: return sp_cp_atomic_mem(cp);
    case PM4_COND_EXEC: return cond_exec(cp);
    case PM4_PRED_EXEC: return pred_exec(cp);
    case PM4_WRITE_DATA: return sp_cp_write_data(cp);
    case PM4_WAIT_REG_MEM: return sp_cp_wait_mem(cp);
    case PM4_WAIT_REG_MEM64: return sp_cp_wait_mem64(cp);
    case PM4_INDIRECT_BUFFER: return indirect_buffer(cp);
    case PM4_COPY_DATA: return sp_cp_copy_data(cp);
    case PM4_EVENT_WRITE: return sp_cp_event_write(cp);
    case PM4_RELEASE_MEM: return sp_cp_release_mem(cp);
    case PM4_DMA_DATA: return sp_cp_dma_data(cp);
    case PM4_ACQUIRE_MEM: return sp_cp_acquire_mem(cp);
    case PM4_SET_CE_DE_COUNTERS: return set_ce_de(cp);
    case PM4_INCREMENT_CE_COUNTER: return cp->q->ce_count++, 0;
    case PM4_INCREMENT_DE_COUNTER: return cp->q->de_count++, 0;
    case PM4_WAIT_ON_CE_COUNTER: return wait_on_ce(cp);
    case PM4_SET_CONTEXT_REG: return sp_cp_set_run(cp, SP_SPACE_CONTEXT);
    case PM4_SET_SH_REG:
    case PM4_SET_SH_REG_INDEX: return sp_cp_set_run(cp, SP_SPACE_SH);
    case PM4_SET_UCONFIG_REG:
    case PM4_SET_UCONFIG_REG_INDEX: return sp_cp_set_run(cp, SP_SPACE_UCONFIG);
    case PM4_SET_CONTEXT_REG_PAIRS: return sp_cp_set_pairs(cp, SP_SPACE_CONTEXT);
    case PM4_SET_SH_REG_PAIRS: return sp_cp_set_pairs(cp, SP_SPACE_SH);
    case PM4_SET_CONTEXT_REG_PAIRS_PACKED: return sp_cp_set_packed(cp, SP_SPACE_CONTEXT);
    case PM4_SET_SH_REG_PAIRS_PACKED:
    case PM4_SET_SH_REG_PAIRS_PACKED_N: return sp_cp_set_packed(cp, SP_SPACE_SH);
    default: return sp_cp_fault(cp, SP_FAULT_PACKET, "known, but not modelled");
    }
}

/* Returns 1 for packets that write registers. The trace shows the written registers instead of
 * these packets. */
static int is_set(uint32_t opcode)
{
    return opcode == PM4_SET_CONTEXT_REG || opcode == PM4_SET_SH_REG || opcode == PM4_SET_UCONFIG_REG ||
           opcode == PM4_SET_UCONFIG_REG_INDEX || opcode == PM4_SET_SH_REG_INDEX ||
           (opcode >= PM4_SET_CONTEXT_REG_PAIRS && opcode <= PM4_SET_SH_REG_PAIRS_PACKED_N);
}

static int check_length(struct sp_cp *cp)
{
    const struct sp_packet *desc = cp->desc;
    uint32_t tail = cp->ndw - desc->fixed;
    if (cp->ndw >= desc->fixed && tail >= desc->tail_least && tail <= desc->tail_most && tail % desc->tail_step == 0)
        return 0;
    return sp_cp_fault(cp, SP_FAULT_PACKET, "%u dwords long, expected %u%s", cp->ndw, desc->fixed + desc->tail_least,
                       desc->tail_most != 0 ? " or more" : "");
}

/* Reads the packet at cp->va, makes the checks common to all packets, and sets cp->next to the
 * following packet. */
static int fetch(struct sp_cp *cp)
{
    uint32_t header, generation = cp->x->chip->generation;
    cp->desc = NULL;
    int rc = sp_emu_fetch(&cp->x->tlb, cp->va, &header, sizeof header);
    if (rc == 0)
        rc = sp_cp_written(cp, cp->va, &header, sizeof header);
    if (rc != 0)
        return rc;
    uint32_t opcode = sp_bits(header, PM4_HEADER_OPCODE), count = sp_bits(header, PM4_HEADER_COUNT);
    if (sp_bits(header, PM4_HEADER_TYPE) != PM4_TYPE3)
        return sp_cp_fault(cp, SP_FAULT_PACKET, "%#x is not a type 3 header", header);
    cp->desc = sp_emu_pm4_packet(generation, cp->q->ip, opcode);
    if (cp->desc == NULL)
        return sp_cp_fault(cp, SP_FAULT_PACKET, "header %#x: opcode %#x is no packet of gfx%u on this queue", header, opcode,
                           generation);
    cp->ndw = opcode == PM4_NOP && count == PM4_COUNT_ONE_DWORD ? 1 : count + 2;
    cp->next = cp->va + 4ull * cp->ndw;
    if (cp->next > cp->end)
        return sp_cp_fault(cp, SP_FAULT_IB, "%u dwords long, but the IB ends after %u", cp->ndw,
                           (uint32_t)((cp->end - cp->va) / 4));
    cp->p[0] = header;
    rc = sp_emu_fetch(&cp->x->tlb, cp->va + 4, cp->p + 1, 4ull * (cp->ndw - 1));
    if (rc != 0)
        return rc;
    if (sp_get(cp->p, PM4_HEADER_PREDICATE))
        return sp_cp_fault(cp, SP_FAULT_PACKET, "header %#x: predication is not modelled", header);
    rc = check_length(cp);
    return rc != 0 ? rc : sp_cp_check(cp);
}

static int run_ib(struct sp_cp *cp, uint64_t va, uint32_t ndw, uint32_t depth)
{
    cp->next = va;
    cp->end = va + 4ull * ndw;
    cp->depth = depth;
    sp_cp_trace(cp, "IB ip=%u depth=%u va=%llx ndw=%u", cp->q->ip, depth, (unsigned long long)va, ndw);
    while (cp->next < cp->end) {
        cp->va = cp->next;
        int rc = fetch(cp);
        if (rc == 0 && !is_set(cp->desc->code) && cp->ndw > 1)
            sp_cp_trace_packet(cp);
        if (rc == 0)
            rc = sp_async_packet(cp);
        if (rc == 0)
            rc = sp_cp_tick(cp, 0);
        if (rc != 0)
            return sp_cp_name_fault(cp, rc);
    }
    return 0;
}

static struct sp_cp *cp_new(struct sp_emu_hwq *q, struct sp_emu_exec *x)
{
    struct sp_cp *cp = malloc(sizeof *cp);
    if (cp != NULL)
        memset(cp, 0, offsetof(struct sp_cp, p));
    if (cp != NULL) {
        cp->q = q;
        cp->x = x;
        cp->execute = execute;
    }
    return cp;
}

int sp_emu_cp_end(struct sp_emu_hwq *q, struct sp_emu_exec *x, int rc, int followed)
{
    struct sp_cp *cp = x->late != NULL && rc == 0 ? cp_new(q, x) : NULL;
    if (cp != NULL)
        rc = sp_cp_name_fault(cp, sp_async_end(cp, followed));
    else if (x->late != NULL && rc == 0)
        rc = -ENOMEM;
    if (rc != 0)
        sp_async_forget(x);
    free(cp);
    return rc;
}

int sp_emu_cp_run(struct sp_emu_hwq *q, const struct sp_emu_ib *ib, struct sp_emu_exec *x)
{
    struct sp_cp *cp = cp_new(q, x);
    if (cp == NULL)
        return -ENOMEM;
    cp->flags = ib->flags;
    cp->va = sp_emu_canonical(ib->va);
    int rc = sp_cp_tick(cp, 1);
    if (rc == 0 && (ib->ndw == 0 || !sp_emu_is_address(ib->va)))
        rc = sp_cp_fault(cp, SP_FAULT_IB, "%u dwords at %#llx", ib->ndw, (unsigned long long)ib->va);
    if (rc == 0)
        rc = check_start(cp, ib->va, ib->ndw);
    /* "Gfx10+ automatically invalidates I$, SMEM$, VMEM$, and GL1$ at the beginning of IBs"
     * (radeonsi, si_begin_new_gfx_cs) */
    if (rc == 0 && x->tlb.l2 && !x->keep_caches)
        sp_l2_gcr(x->tlb.l2, SP_GCR_GLI_INV | SP_GCR_GLK_INV | SP_GCR_GLV_INV | SP_GCR_GL1_INV);
    if (rc == 0)
        rc = run_ib(cp, cp->va, ib->ndw, 0);
    free(cp);
    return rc;
}
