/* Packets about order: cache actions, events, fences, waits. async_packets.c models which packets
 * are under way. This file checks the packets' fields and executes what the packets do to memory
 * and caches. */
#include "engine.h"
#include "emu/memory/unit.h"
#include "emu/order/log.h"
#include "gen/pm4_packets.h"
#include <errno.h>

enum { INDEX_OTHER = 0, INDEX_STAT_CONTROL = 1, INDEX_PARTIAL_FLUSH = 4, INDEX_END_OF_PIPE = 5, INDEX_DONE = 6 };
enum { FOREVER = UINT32_MAX };

static int no_engine_on_compute(struct sp_cp *cp, uint32_t engine)
{
    if (engine != 0 && cp->q->ip == SP_IP_COMPUTE && !sp_cp_lenient(cp, SP_LENIENT_RESERVED))
        return sp_cp_fault(cp, SP_FAULT_RESERVED, "engine %u: a compute queue has one", engine);
    return 0;
}

/* A field of a packet, and the cache action that it stands for. Actions apply to the whole card;
 * the packet's address range is ignored. */
struct gcr_field {
    uint32_t field, gcr;
};
static void invalidate(struct sp_cp *cp, uint32_t dword, const struct gcr_field *fields, size_t count)
{
    struct sp_emu_tlb *tlb = &cp->x->tlb;
    uint32_t gcr = 0;
    for (size_t i = 0; i < count; i++)
        if (fields[i].field && sp_bits(dword, fields[i].field))
            gcr |= fields[i].gcr;
    const struct sp_emu_flaw_of *flaw = sp_emu_flaw(cp->x->chip, SP_FLAW_GCR);
    gcr &= flaw ? ~(uint32_t)flaw->a : UINT32_MAX;
    if (!tlb->l2 || gcr == 0)
        return;
    sp_l2_gcr(tlb->l2, gcr);
    sp_emu_tlb_reset(tlb, tlb->view, tlb->fault);
}

static int check_acquire(struct sp_cp *cp)
{
    const uint32_t *p = cp->p;
    if (sp_get(p, PM4_ACQUIRE_MEM_GCR_GLM_WB) != 0 && sp_get(p, PM4_ACQUIRE_MEM_GCR_GLM_INV) == 0)
        return sp_cp_fault(cp, SP_FAULT_PACKET, "GLM_WB without GLM_INV");
    if (sp_get(p, PM4_ACQUIRE_MEM_GCR_RANGE_IS_PA) != 0)
        return sp_cp_fault(cp, SP_FAULT_PACKET, "RANGE_IS_PA: a user has no physical addresses");
    if (cp->x->chip->generation < 11)
        return 0;
    uint32_t pws = sp_get(p, PM4_ACQUIRE_MEM_POLL_PWS_ENA);
    if (pws != sp_get(p, PM4_ACQUIRE_MEM_PWS_ENA2))
        return sp_cp_fault(cp, SP_FAULT_PACKET, "PWS_ENA is %u, PWS_ENA2 is not", pws);
    if (pws != 0 && cp->q->ip != SP_IP_GFX)
        return sp_cp_fault(cp, SP_FAULT_PACKET, "pixel wait sync on a queue that is not GFX");
    return 0;
}

void sp_cp_gcr(struct sp_cp *cp, uint32_t gcr_cntl)
{
    static const struct gcr_field fields[] = {
        {PM4_ACQUIRE_MEM_GCR_GLI_INV, SP_GCR_GLI_INV}, {PM4_ACQUIRE_MEM_GCR_GLK_INV, SP_GCR_GLK_INV},
        {PM4_ACQUIRE_MEM_GCR_GLV_INV, SP_GCR_GLV_INV}, {PM4_ACQUIRE_MEM_GCR_GL1_INV, SP_GCR_GL1_INV},
        {PM4_ACQUIRE_MEM_GCR_GL2_INV, SP_GCR_GL2_INV}, {PM4_ACQUIRE_MEM_GCR_GL2_WB, SP_GCR_GL2_WB},
    };
    invalidate(cp, gcr_cntl, fields, sizeof fields / sizeof *fields);
}

int sp_cp_acquire_mem(struct sp_cp *cp)
{
    int rc = check_acquire(cp);
    if (rc == 0)
        sp_cp_gcr(cp, sp_get(cp->p, PM4_ACQUIRE_MEM_GCR));
    return rc;
}

static int check_event(struct sp_cp *cp)
{
    uint32_t type = sp_get(cp->p, PM4_EVENT_WRITE_EVENT_TYPE), want;
    int gfx_only = 1;
    switch (type) {
    case PM4_EVENT_CS_PARTIAL_FLUSH:
        gfx_only = 0;
        want = INDEX_PARTIAL_FLUSH;
        break;
    case PM4_EVENT_VS_PARTIAL_FLUSH:
    case PM4_EVENT_PS_PARTIAL_FLUSH: want = INDEX_PARTIAL_FLUSH; break;
    case PM4_EVENT_PIPELINESTAT_START:
    case PM4_EVENT_PIPELINESTAT_STOP:
        gfx_only = 0;
        want = INDEX_OTHER;
        break;
    case PM4_EVENT_PIXEL_PIPE_STAT_CONTROL: want = INDEX_STAT_CONTROL; break;
    case PM4_EVENT_CACHE_FLUSH:
    case PM4_EVENT_CACHE_FLUSH_AND_INV_EVENT:
    case PM4_EVENT_VGT_FLUSH:
    case PM4_EVENT_FLUSH_AND_INV_DB_META:
    case PM4_EVENT_FLUSH_AND_INV_CB_META: want = INDEX_OTHER; break;
    default: return sp_cp_fault(cp, SP_FAULT_PACKET, "event type %#x is not one that EVENT_WRITE is known to take", type);
    }
    if (gfx_only && cp->q->ip != SP_IP_GFX)
        return sp_cp_fault(cp, SP_FAULT_PACKET, "event type %#x on a compute queue", type);
    if (sp_get(cp->p, PM4_EVENT_WRITE_EVENT_INDEX) != want)
        return sp_cp_fault(cp, SP_FAULT_PACKET, "event type %#x: expected index %u, got %u", type, want,
                           sp_get(cp->p, PM4_EVENT_WRITE_EVENT_INDEX));
    return 0;
}

int sp_cp_event_write(struct sp_cp *cp)
{
    int rc = check_event(cp);
    int has_mask = cp->ndw > PM4_EVENT_WRITE_NDW;
    int wants_mask = sp_get(cp->p, PM4_EVENT_WRITE_EVENT_TYPE) == PM4_EVENT_PIXEL_PIPE_STAT_CONTROL;
    if (rc == 0 && has_mask != wants_mask)
        rc = sp_cp_fault(cp, SP_FAULT_PACKET, "%u dwords are wrong for event type %#x", cp->ndw,
                         sp_get(cp->p, PM4_EVENT_WRITE_EVENT_TYPE));
    return rc;
}

static int check_release(struct sp_cp *cp)
{
    const uint32_t *p = cp->p;
    uint32_t type = sp_get(p, PM4_RELEASE_MEM_EVENT_TYPE), index = sp_get(p, PM4_RELEASE_MEM_EVENT_INDEX);
    int is_done = type == PM4_EVENT_CS_DONE || type == PM4_EVENT_PS_DONE;
    int is_end = type == PM4_EVENT_CACHE_FLUSH_TS || type == PM4_EVENT_CACHE_FLUSH_AND_INV_TS ||
                 type == PM4_EVENT_BOTTOM_OF_PIPE_TS;
    if (!is_done && !is_end)
        return sp_cp_fault(cp, SP_FAULT_PACKET, "event type %#x is neither end of pipe nor CS or PS done", type);
    if (index != (is_end ? INDEX_END_OF_PIPE : INDEX_DONE))
        return sp_cp_fault(cp, SP_FAULT_PACKET, "event type %#x with index %u", type, index);
    if (sp_get(p, PM4_RELEASE_MEM_EVENT_GLM_WB) != 0 && sp_get(p, PM4_RELEASE_MEM_EVENT_GLM_INV) == 0)
        return sp_cp_fault(cp, SP_FAULT_PACKET, "GLM_WB without GLM_INV");
    if (sp_get(p, PM4_RELEASE_MEM_SELECT_DST) > 1)
        return sp_cp_fault(cp, SP_FAULT_PACKET, "dst_sel %u is not memory", sp_get(p, PM4_RELEASE_MEM_SELECT_DST));
    if (sp_get(p, PM4_RELEASE_MEM_SELECT_INTR) > PM4_INT_SEL_DATA_AFTER_CONFIRM)
        return sp_cp_fault(cp, SP_FAULT_PACKET, "int_sel %u", sp_get(p, PM4_RELEASE_MEM_SELECT_INTR));
    if (cp->x->chip->generation >= 11 && sp_get(p, PM4_RELEASE_MEM_EVENT_PWS_ENABLE) != 0 && cp->q->ip != SP_IP_GFX)
        return sp_cp_fault(cp, SP_FAULT_PACKET, "pixel wait sync on a queue that is not GFX");
    return 0;
}

/* Stores the value of a RELEASE_MEM to memory, or only to GL2. In GL2 the CPU does not see it
 * before a write-back. */
static int release_store(struct sp_cp *cp, uint32_t nbytes, uint64_t value)
{
    uint64_t va = sp_get64(cp->p, PM4_RELEASE_MEM_ADDR);
    int in_l2 = sp_get(cp->p, PM4_RELEASE_MEM_SELECT_DST) == 1 &&
                sp_get(cp->p, PM4_RELEASE_MEM_EVENT_POLICY) != PM4_CACHE_POLICY_BYPASS;
    int rc = sp_cp_store(cp, va, nbytes, value);
    if (rc == 0 && !in_l2)
        sp_cache_through(&cp->x->tlb, va, nbytes);
    sp_watch_signalled(cp->x->watch);
    return rc;
}

int sp_cp_release_mem(struct sp_cp *cp)
{
    const uint32_t glk_inv = cp->x->chip->generation >= 11 ? PM4_RELEASE_MEM_EVENT_GLK_INV : 0;
    const struct gcr_field fields[] = {
        {glk_inv, SP_GCR_GLK_INV}, {PM4_RELEASE_MEM_EVENT_GLV_INV, SP_GCR_GLV_INV},
        {PM4_RELEASE_MEM_EVENT_GL1_INV, SP_GCR_GL1_INV}, {PM4_RELEASE_MEM_EVENT_GL2_INV, SP_GCR_GL2_INV},
        {PM4_RELEASE_MEM_EVENT_GL2_WB, SP_GCR_GL2_WB},
    };
    uint64_t value = sp_get64(cp->p, PM4_RELEASE_MEM_VALUE);
    int rc = check_release(cp);
    if (rc != 0 || sp_emu_flaw(cp->x->chip, SP_FLAW_RELEASE))
        return rc;
    invalidate(cp, sp_get(cp->p, PM4_RELEASE_MEM_EVENT), fields, sizeof fields / sizeof *fields);
    switch (sp_get(cp->p, PM4_RELEASE_MEM_SELECT_DATA)) {
    case PM4_DATA_SEL_NONE: return 0;
    case PM4_DATA_SEL_VALUE_32: return release_store(cp, 4, value);
    case PM4_DATA_SEL_VALUE_64: return release_store(cp, 8, value);
    case PM4_DATA_SEL_GPU_CLOCK:
    case PM4_DATA_SEL_SYSTEM_CLOCK: return release_store(cp, 8, sp_emu_gpu_clock(cp->x->chip));
    default:
        return sp_cp_fault(cp, SP_FAULT_PACKET, "data_sel %u", sp_get(cp->p, PM4_RELEASE_MEM_SELECT_DATA));
    }
}

static int check_wait(struct sp_cp *cp, uint64_t va)
{
    const uint32_t *p = cp->p;
    if (sp_get(p, PM4_WAIT_REG_MEM_CONTROL_MEM_SPACE) != 1)
        return sp_cp_fault(cp, SP_FAULT_PACKET, "mem_space %u: only memory (1) is modelled",
                           sp_get(p, PM4_WAIT_REG_MEM_CONTROL_MEM_SPACE));
    if (sp_get(p, PM4_WAIT_REG_MEM_CONTROL_OPERATION) != 0)
        return sp_cp_fault(cp, SP_FAULT_PACKET, "operation %u: only waiting (0) is modelled",
                           sp_get(p, PM4_WAIT_REG_MEM_CONTROL_OPERATION));
    if (!sp_emu_is_address(va))
        return sp_cp_fault(cp, SP_FAULT_RESERVED, "expected a 48-bit address, got %#llx", (unsigned long long)va);
    return no_engine_on_compute(cp, sp_get(p, PM4_WAIT_REG_MEM_CONTROL_ENGINE));
}

int sp_cp_wait_mem(struct sp_cp *cp)
{
    const uint32_t *p = cp->p;
    uint64_t va = sp_get64(p, PM4_WAIT_REG_MEM_ADDR);
    int rc = check_wait(cp, va);
    return rc != 0 ? rc
                   : sp_cp_wait(cp, va, 4, sp_get(p, PM4_WAIT_REG_MEM_CONTROL_FUNCTION),
                                sp_get(p, PM4_WAIT_REG_MEM_REFERENCE), sp_get(p, PM4_WAIT_REG_MEM_MASK), FOREVER);
}

int sp_cp_wait_mem64(struct sp_cp *cp)
{
    const uint32_t *p = cp->p;
    uint64_t va = sp_get64(p, PM4_WAIT_REG_MEM64_ADDR);
    int rc = check_wait(cp, va);
    return rc != 0 ? rc
                   : sp_cp_wait(cp, va, 8, sp_get(p, PM4_WAIT_REG_MEM64_CONTROL_FUNCTION),
                                sp_get64(p, PM4_WAIT_REG_MEM64_REFERENCE), sp_get64(p, PM4_WAIT_REG_MEM64_MASK), FOREVER);
}
