/* Stands in for the command processor, SDMA and waves until native/emu/cp and native/emu/wave are there; then this file goes.
 * All weak. It knows NOP, WRITE_DATA and WAIT_REG_MEM (==) of PM4, NOP and WRITE of SDMA, and launches nothing. */
#include "cp/cp.h"

#include <errno.h>
#include <sched.h>
#include <time.h>

#define WEAK __attribute__((weak))

WEAK void sp_emu_hwq_reset(struct sp_emu_hwq *q, uint32_t ip)
{
    memset(q, 0xa5, sizeof(*q));
    q->ip = ip;
}

static int fetch(const struct sp_emu_ib *ib, uint32_t at, struct sp_emu_exec *x, uint32_t *dword)
{
    const uint8_t *from = at < ib->ndw ? sp_emu_at(&x->tlb, ib->va + at * 4ULL, SP_VM_READ) : NULL;
    if (!from)
        return at < ib->ndw ? -EFAULT : sp_emu_fault_set(&x->fault, SP_FAULT_PACKET, -EFAULT, "packet beyond the IB");
    memcpy(dword, from, 4);
    return 0;
}

static int stopped(const struct sp_emu_exec *x)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (x->cancel && __atomic_load_n(x->cancel, __ATOMIC_RELAXED))
        return -ECANCELED;
    return x->deadline_ns && (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec >= x->deadline_ns ? -ETIME : 0;
}

static int wait_equal(const uint32_t *body, struct sp_emu_exec *x)
{
    uint64_t va = body[1] | (uint64_t)body[2] << 32;
    for (;;) {
        const uint32_t *word = (const uint32_t *)(const void *)sp_emu_at(&x->tlb, va, SP_VM_READ);
        if (!word)
            return -EFAULT;
        if ((__atomic_load_n(word, __ATOMIC_ACQUIRE) & body[4]) == body[3])
            return 0;
        int rc = stopped(x);
        if (rc < 0)
            return rc;
        sched_yield();
    }
}

WEAK int sp_emu_cp_run(struct sp_emu_hwq *q, const struct sp_emu_ib *ib, struct sp_emu_exec *x)
{
    uint32_t body[64] = {0}, header, n;
    (void)q;
    for (uint32_t at = 0; at < ib->ndw; at += n) {
        int rc = fetch(ib, at, x, &header);
        uint32_t count = header >> 16 & 0x3fff, opcode = header >> 8 & 0xff;
        n = opcode == 0x10 && count == 0x3fff ? 1 : count + 2;
        if (opcode == 0x10 && rc == 0)
            continue;
        if (rc == 0 && (header >> 30 != 3 || n > 64 || (opcode != 0x37 && opcode != 0x3c)))
            return sp_emu_fault_set(&x->fault, SP_FAULT_PACKET, -EFAULT, "packet 0x%08x", header);
        for (uint32_t i = 1; i < n && rc == 0; i++)
            rc = fetch(ib, at + i, x, &body[i - 1]);
        if (rc == 0)
            rc = opcode == 0x3c
                     ? wait_equal(body, x)
                     : sp_emu_write(&x->tlb, body[1] | (uint64_t)body[2] << 32, &body[3], (size_t)(n - 4) * 4);
        if (rc < 0)
            return rc;
    }
    return 0;
}

WEAK int sp_emu_sdma_run(struct sp_emu_hwq *q, const struct sp_emu_ib *ib, struct sp_emu_exec *x)
{
    (void)q;
    for (uint32_t at = 0, n; at < ib->ndw; at += n) {
        uint32_t w[4] = {0}, value;
        int rc = fetch(ib, at, x, &w[0]);
        n = 1 + (w[0] >> 16 & 0x3fff);
        if (rc == 0 && (w[0] & 0xff) == 0)
            continue;
        if (rc == 0 && (w[0] & 0xff) != 2)
            return sp_emu_fault_set(&x->fault, SP_FAULT_PACKET, -EFAULT, "packet 0x%08x", w[0]);
        for (uint32_t i = 1; i < 4 && rc == 0; i++)
            rc = fetch(ib, at + i, x, &w[i]);
        n = 4 + w[3] + 1;
        for (uint32_t i = 0; i <= w[3] && rc == 0; i++)
            if ((rc = fetch(ib, at + 4 + i, x, &value)) == 0)
                rc = sp_emu_write(&x->tlb, (w[1] | (uint64_t)w[2] << 32) + i * 4ULL, &value, 4);
        if (rc < 0)
            return rc;
    }
    return 0;
}
