/* Walks an IB of a DMA queue. On silicon the copies of one IB are unordered. Here two copies
 * conflict if one reads or overwrites what the other writes. A conflict is a fault, unless a packet
 * that is no copy or fill, such as NOP or FENCE, stands between the two. */
#include "engine.h"
#include "emu/memory/unit.h"
#include "emu/order/log.h"
#include "gen/pm4_packets.h"
#include "gen/sdma_packets.h"
#include <errno.h>
#include <stdlib.h>

enum { FILL_DWORDS = 2, MTYPE_UC = 3, RETRY_FOREVER = 0xfff, OPEN_MAX = 1024, WRITE_PIECE = 1024 };

struct span {
    uint64_t first, end;
    int written;
};

struct sdma {
    struct sp_cp cp;
    /* ranges that copies and fills have read or written since the last packet of another kind */
    struct span span[OPEN_MAX];
    uint32_t open;
    struct late {
        /* operands of the delayed copy; nbytes 0: there is no delayed copy */
        uint64_t dst, src, nbytes;
    } late; /* with SP_FLAW_OVERTAKE: a delayed copy, which is executed after the next copy */
};

/* Returns a range of s->span that overlaps the access `with`, if at least one of the two is a
 * write. Returns NULL if there is none. */
static const struct span *conflict(const struct sdma *s, struct span with)
{
    for (uint32_t i = 0; i < s->open; i++)
        if ((with.written || s->span[i].written) && with.first < s->span[i].end && s->span[i].first < with.end)
            return &s->span[i];
    return NULL;
}

static int check_order(struct sdma *s, struct span with)
{
    const struct span *other = conflict(s, with);
    if (other == NULL)
        return 0;
    return sp_cp_fault(&s->cp, SP_FAULT_PACKET,
                       "its %s %#llx was %s by a copy or fill before it: a NOP between them must order the two",
                       with.written ? "destination" : "source", (unsigned long long)with.first,
                       other->written ? "written" : "read");
}

/* Adds a range to s->span: the ranges read or written since the last packet that was no copy or
 * fill. If the range continues an earlier one, as the parts of a long copy do, it extends that
 * entry. */
static int remember(struct sdma *s, struct span with)
{
    for (uint32_t i = s->open; i > 0 && i + 2 > s->open; i--)
        if (s->span[i - 1].written == with.written && s->span[i - 1].end == with.first) {
            s->span[i - 1].end = with.end;
            return 0;
        }
    if (s->open == OPEN_MAX)
        return sp_cp_fault(&s->cp, SP_FAULT_PACKET,
                           "more than %u ranges were touched without a NOP: their order is not checked",
                           OPEN_MAX);
    s->span[s->open++] = with;
    return 0;
}

/* Checks a read of `nbytes` at `*src` (unless `src` is NULL) and a write of `nbytes` at `dst`. It
 * is a fault if either conflicts with a copy or fill since the last packet of another kind. */
static int touch(struct sdma *s, const uint64_t *src, uint64_t dst, uint64_t nbytes)
{
    struct span to = {dst, dst + nbytes, 1}, from = {0};
    int rc = 0;
    if (sp_cp_lenient(&s->cp, SP_LENIENT_ORDER))
        return 0;
    if (src != NULL) {
        from = (struct span){*src, *src + nbytes, 0};
        rc = check_order(s, from);
    }
    if (rc == 0)
        rc = check_order(s, to);
    if (rc == 0 && src != NULL)
        rc = remember(s, from);
    return rc != 0 ? rc : remember(s, to);
}

static int run_late(struct sdma *s)
{
    struct late late = s->late;
    s->late.nbytes = 0;
    return late.nbytes ? sp_cp_copy(&s->cp, late.dst, late.src, late.nbytes) : 0;
}

static int copy(struct sdma *s, uint64_t dst, uint64_t src, uint64_t nbytes)
{
    if (sp_emu_flaw(s->cp.x->chip, SP_FLAW_OVERTAKE) && !s->late.nbytes) {
        s->late = (struct late){dst, src, nbytes};
        return 0;
    }
    int rc = sp_cp_copy(&s->cp, dst, src, nbytes);
    return rc ? rc : run_late(s);
}

static int copy_linear(struct sdma *s)
{
    struct sp_cp *cp = &s->cp;
    uint64_t src = sp_get64(cp->p, SDMA_COPY_LINEAR_SRC), dst = sp_get64(cp->p, SDMA_COPY_LINEAR_DST);
    uint64_t nbytes = sp_get(cp->p, SDMA_COPY_LINEAR_COUNT_BYTES);
    const struct sp_emu_flaw_of *flaw = sp_emu_flaw(cp->x->chip, SP_FLAW_SDMA_COPY);
    int rc = touch(s, &src, dst, nbytes);
    if (rc == 0)
        rc = copy(s, dst, src, nbytes);
    uint8_t *at = rc == 0 && flaw && flaw->a < nbytes
                      ? sp_emu_at(&cp->x->tlb, dst + flaw->a, SP_VM_WRITE) : NULL;
    if (at)
        *at ^= (uint8_t)(1U << flaw->b % 8);
    if (at)
        sp_emu_wrote(&cp->x->tlb, dst + flaw->a, 1);
    return rc;
}

static int const_fill(struct sdma *s)
{
    struct sp_cp *cp = &s->cp;
    uint64_t dst = sp_get64(cp->p, SDMA_CONST_FILL_ADDR);
    uint64_t nbytes = sp_get(cp->p, SDMA_CONST_FILL_COUNT_BYTES_GFX11);
    if (sp_get(cp->p, SDMA_CONST_FILL_HEADER_FILLSIZE) != FILL_DWORDS)
        return sp_cp_fault(cp, SP_FAULT_PACKET, "fillsize %u: only 2 (dwords) is modelled",
                           sp_get(cp->p, SDMA_CONST_FILL_HEADER_FILLSIZE));
    if (nbytes % 4 != 0)
        return sp_cp_fault(cp, SP_FAULT_ALIGNMENT, "%llu bytes are not whole dwords", (unsigned long long)nbytes);
    int rc = touch(s, NULL, dst, nbytes);
    const struct sp_emu_flaw_of *flaw = sp_emu_flaw(cp->x->chip, SP_FLAW_SDMA_FILL);
    uint32_t value = sp_get(cp->p, SDMA_CONST_FILL_VALUE) ^ (flaw ? (uint32_t)flaw->a : 0);
    return rc != 0 ? rc : sp_cp_fill(cp, dst, value, nbytes);
}

/* Executes WRITE. The data may be longer than the packet buffer, so they are read in parts. */
static int write(struct sdma *s)
{
    struct sp_cp *cp = &s->cp;
    uint64_t dst = sp_get64(cp->p, SDMA_WRITE_ADDR), from = cp->va + 4ull * cp->desc->fixed;
    uint32_t ndw = sp_get(cp->p, SDMA_WRITE_COUNT_NDW), piece[WRITE_PIECE];
    for (uint32_t done = 0, n; done < ndw; done += n) {
        n = ndw - done < WRITE_PIECE ? ndw - done : WRITE_PIECE;
        int rc = sp_emu_fetch(&cp->x->tlb, from + 4ull * done, piece, 4ull * n);
        if (rc == 0)
            rc = sp_emu_write(&cp->x->tlb, dst + 4ull * done, piece, 4ull * n);
        if (rc != 0)
            return rc;
    }
    return 0;
}

static int fence(struct sp_cp *cp)
{
    uint32_t mtype = cp->x->chip->generation >= 10 ? sp_get(cp->p, SDMA_FENCE_HEADER_MTYPE) : MTYPE_UC;
    if (mtype != MTYPE_UC && !sp_cp_lenient(cp, SP_LENIENT_RESERVED))
        return sp_cp_fault(cp, SP_FAULT_PACKET, "mtype %u: expected %u (UC), else no reader sees the value in time", mtype, MTYPE_UC);
    sp_watch_signalled(cp->x->watch);
    return sp_cp_store(cp, sp_get64(cp->p, SDMA_FENCE_ADDR), 4, sp_get(cp->p, SDMA_FENCE_VALUE));
}

static int poll_regmem(struct sp_cp *cp)
{
    uint32_t retry = sp_get(cp->p, SDMA_POLL_REGMEM_POLL_RETRY);
    if (!sp_get(cp->p, SDMA_POLL_REGMEM_HEADER_MEM))
        return sp_cp_fault(cp, SP_FAULT_PACKET, "of a register: only the kernel driver may use it");
    return sp_cp_wait(cp, sp_get64(cp->p, SDMA_POLL_REGMEM_ADDR), 4, sp_get(cp->p, SDMA_POLL_REGMEM_HEADER_FUNCTION),
                      sp_get(cp->p, SDMA_POLL_REGMEM_VALUE), sp_get(cp->p, SDMA_POLL_REGMEM_MASK),
                      retry == RETRY_FOREVER ? UINT32_MAX : retry);
}

static int execute(struct sdma *s)
{
    struct sp_cp *cp = &s->cp;
    switch (cp->desc->code) {
    case SDMA_COPY_LINEAR: return copy_linear(s);
    case SDMA_CONST_FILL: return const_fill(s);
    default: s->open = 0; /* a packet of another kind waits for all earlier copies and fills */
    }
    int rc = cp->desc->code == SDMA_NOP ? 0 : run_late(s);
    if (rc != 0)
        return rc;
    switch (cp->desc->code) {
    case SDMA_NOP: return 0;
    case SDMA_USER_GCR:
        sp_cp_gcr(cp, sp_get(cp->p, SDMA_USER_GCR_BASE_HI) >> 16 | sp_get(cp->p, SDMA_USER_GCR_LIMIT_LO) << 16);
        return 0;
    case SDMA_WRITE: return write(s);
    case SDMA_FENCE: return fence(cp);
    case SDMA_POLL_REGMEM: return poll_regmem(cp);
    case SDMA_TIMESTAMP: return sp_cp_store(cp, sp_get64(cp->p, SDMA_TIMESTAMP_ADDR), 8, sp_emu_gpu_clock(cp->x->chip));
    case SDMA_GCR_REQ:
    case SDMA_INDIRECT:
    case SDMA_TRAP: return sp_cp_fault(cp, SP_FAULT_PACKET, "only the kernel driver may use it");
    default: return sp_cp_fault(cp, SP_FAULT_PACKET, "known, but not modelled");
    }
}

/* Returns the name of a packet that only the kernel driver's own ring may use, or NULL. Such
 * packets reach registers, page tables and the GPU's own state. The engine ends a user's IB at them
 * ("SRBM_WRITE command in non-privilege command buffer": sdma_v4_0_process_srbm_write_irq).
 * Opcodes are from navi10_sdma_pkt_open.h and sdma_v6_0_0_pkt_open.h. */
static const char *privileged(uint32_t code)
{
    static const struct { uint32_t op; char name[12]; } all[] = {
        {7, "SEM"}, {12, "PTEPDE"}, {14, "SRBM_WRITE"}, {15, "PRE_EXE"}, {16, "GPUVM_INV"}, {32, "DUMMY_TRAP"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if ((code & 0xff) == all[i].op)
            return all[i].name;
    return NULL;
}

static uint64_t tail_of(const struct sp_cp *cp)
{
    if (cp->desc->code == SDMA_WRITE)
        return sp_get(cp->p, SDMA_WRITE_COUNT_NDW);
    return cp->desc->code == SDMA_NOP ? sp_get(cp->p, SDMA_NOP_HEADER_COUNT) : 0;
}

static int fetch(struct sp_cp *cp)
{
    cp->desc = NULL;
    int rc = sp_emu_fetch(&cp->x->tlb, cp->va, cp->p, 4);
    if (rc == 0)
        rc = sp_cp_written(cp, cp->va, cp->p, 4);
    if (rc != 0)
        return rc;
    uint32_t code = sp_get(cp->p, SDMA_NOP_HEADER_OP) |
                    /* keeps the sub-opcode at its bits in the header: the packet tables list codes
                     * in that form */
                    (cp->p[0] & sp_place_mask(SDMA_NOP_HEADER_SUB_OP));
    cp->desc = sp_emu_sdma_packet(cp->x->chip->generation, code);
    if (cp->desc == NULL && privileged(code))
        return sp_cp_fault(cp, SP_FAULT_PACKET, "%s: only the kernel driver may use it", privileged(code));
    if (cp->desc == NULL)
        return sp_cp_fault(cp, SP_FAULT_PACKET, "header %#x: no SDMA packet of gfx%u", cp->p[0], cp->x->chip->generation);
    cp->ndw = cp->desc->fixed;
    if (cp->end - cp->va < 4ull * cp->ndw)
        return sp_cp_fault(cp, SP_FAULT_IB, "%u dwords long, but the IB ends before", cp->ndw);
    rc = sp_emu_fetch(&cp->x->tlb, cp->va + 4, cp->p + 1, 4ull * (cp->ndw - 1));
    if (rc == 0)
        rc = sp_cp_check(cp);
    if (rc != 0)
        return rc;
    cp->next = cp->va + 4ull * cp->ndw + 4ull * tail_of(cp);
    if (cp->next > cp->end)
        return sp_cp_fault(cp, SP_FAULT_IB, "%llu dwords of data, but the IB ends before", (unsigned long long)tail_of(cp));
    return 0;
}

static int run(struct sdma *s, const struct sp_emu_ib *ib)
{
    struct sp_cp *cp = &s->cp;
    int rc = sp_cp_tick(cp, 1);
    cp->va = sp_emu_canonical(ib->va);
    cp->next = cp->va;
    cp->end = cp->va + 4ull * ib->ndw;
    if (rc == 0 && (ib->ndw == 0 || !sp_emu_is_address(ib->va) || ib->va % 4 != 0 ||
                    (ib->va % SP_IB_START_DMA != 0 && !sp_cp_lenient(cp, SP_LENIENT_PADDING))))
        rc = sp_cp_fault(cp, SP_FAULT_IB, "%u dwords at %#llx: expected a multiple of %u bytes", ib->ndw,
                         (unsigned long long)ib->va, SP_IB_START_DMA);
    if (rc == 0)
        sp_cp_trace(cp, "IB ip=%u depth=0 va=%llx ndw=%u", cp->q->ip, (unsigned long long)cp->va, ib->ndw);
    while (rc == 0 && cp->next < cp->end) {
        cp->va = cp->next;
        rc = fetch(cp);
        if (rc == 0)
            sp_cp_trace_packet(cp);
        if (rc == 0)
            rc = execute(s);
        if (rc == 0)
            rc = sp_cp_tick(cp, 0);
    }
    rc = rc ? rc : run_late(s);
    return sp_cp_name_fault(cp, rc);
}

int sp_emu_sdma_run(struct sp_emu_hwq *q, const struct sp_emu_ib *ib, struct sp_emu_exec *x)
{
    struct sdma *s = malloc(sizeof *s);
    if (s == NULL)
        return -ENOMEM;
    s->open = 0;
    s->late.nbytes = 0;
    s->cp.q = q;
    s->cp.x = x;
    s->cp.desc = NULL;
    s->cp.flags = ib->flags;
    s->cp.packets = s->cp.depth = s->cp.named = 0;
    s->cp.va = ib->va;
    int rc = run(s, ib);
    free(s);
    return rc;
}
