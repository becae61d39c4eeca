/* Memory accesses of the command processor and SDMA: atomic loads and stores of 4 or 8 bytes,
 * copies page by page, waits for a value. */
#include "async_packets.h"
#include "emu/memory/unit.h"
#include "emu/order/log.h"
#include "gen/pm4_packets.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { TICK_BYTES = 1 << 20 };

/* Returns the host address of `nbytes` (4 or 8) at `va`. `va` is aligned, so they are in one
 * page. */
static uint8_t *word_at(struct sp_cp *cp, uint64_t va, uint32_t nbytes, uint32_t access)
{
    if (va % nbytes != 0) {
        sp_cp_fault(cp, SP_FAULT_ALIGNMENT, "address %#llx is not %u-byte aligned", (unsigned long long)va, nbytes);
        return NULL;
    }
    return sp_emu_at(&cp->x->tlb, va, access);
}

int sp_cp_load(struct sp_cp *cp, uint64_t va, uint32_t nbytes, uint64_t *value)
{
    const uint8_t *at = word_at(cp, va, nbytes, SP_VM_READ);
    if (at == NULL || (sp_emu_is_watched(&cp->x->tlb) && sp_emu_saw(&cp->x->tlb, va, at, nbytes, SP_VM_READ)))
        return -EFAULT;
    *value = nbytes == 8 ? __atomic_load_n((const uint64_t *)(const void *)at, __ATOMIC_ACQUIRE)
                         : __atomic_load_n((const uint32_t *)(const void *)at, __ATOMIC_ACQUIRE);
    return 0;
}

int sp_cp_written(struct sp_cp *cp, uint64_t va, const void *got, uint32_t nbytes)
{
    uint64_t at = sp_emu_poison_of(&cp->x->tlb, va, got, nbytes);
    return at == SP_NO_POISON ? 0
                              : sp_cp_fault(cp, SP_FAULT_UNINITIALISED, "the memory at %#llx was never written",
                                            (unsigned long long)at);
}

int sp_cp_use(struct sp_cp *cp, uint64_t va, uint32_t nbytes, uint64_t *value)
{
    int rc = sp_cp_load(cp, va, nbytes, value);
    return rc != 0 ? rc : sp_cp_written(cp, va, value, nbytes);
}

int sp_cp_poll(struct sp_cp *cp, uint64_t va, uint32_t nbytes, uint64_t *value)
{
    struct sp_watch *watch = cp->x->tlb.watch;
    cp->x->tlb.watch = NULL;
    int rc = sp_cp_use(cp, va, nbytes, value);
    cp->x->tlb.watch = watch;
    return rc;
}

int sp_cp_store(struct sp_cp *cp, uint64_t va, uint32_t nbytes, uint64_t value)
{
    uint8_t *at = word_at(cp, va, nbytes, SP_VM_WRITE);
    if (at == NULL)
        return -EFAULT;
    sp_emu_writes(&cp->x->tlb, va, nbytes);
    if (nbytes == 8)
        __atomic_store_n((uint64_t *)(void *)at, value, __ATOMIC_RELEASE);
    else
        __atomic_store_n((uint32_t *)(void *)at, (uint32_t)value, __ATOMIC_RELEASE);
    sp_emu_wrote(&cp->x->tlb, va, nbytes);
    return 0;
}

static uint64_t min64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

int sp_cp_copy(struct sp_cp *cp, uint64_t dst, uint64_t src, uint64_t nbytes)
{
    for (uint64_t done = 0, n; done < nbytes; done += n) {
        n = min64(nbytes - done, min64(sp_emu_left(&cp->x->tlb, dst + done), sp_emu_left(&cp->x->tlb, src + done)));
        const uint8_t *from = sp_emu_at(&cp->x->tlb, src + done, SP_VM_READ);
        uint8_t *to = from != NULL ? sp_emu_at(&cp->x->tlb, dst + done, SP_VM_WRITE) : NULL;
        if (to == NULL || (sp_emu_is_watched(&cp->x->tlb) && sp_emu_saw(&cp->x->tlb, src + done, from, n, SP_VM_READ)))
            return -EFAULT;
        sp_emu_poison_copied(&cp->x->tlb, dst + done, src + done);
        sp_emu_writes(&cp->x->tlb, dst + done, n);
        memmove(to, from, n);
        sp_emu_wrote(&cp->x->tlb, dst + done, n);
        int rc = done % TICK_BYTES < n ? sp_cp_tick(cp, 1) : 0;
        if (rc != 0)
            return rc;
    }
    return 0;
}

int sp_cp_fill(struct sp_cp *cp, uint64_t dst, uint32_t dword, uint64_t nbytes)
{
    for (uint64_t done = 0, n; done < nbytes; done += n) {
        n = min64(nbytes - done, sp_emu_left(&cp->x->tlb, dst + done));
        uint8_t *to = sp_emu_at(&cp->x->tlb, dst + done, SP_VM_WRITE);
        if (to == NULL)
            return -EFAULT;
        sp_emu_writes(&cp->x->tlb, dst + done, n);
        for (uint64_t i = 0; i < n; i += 4)
            memcpy(to + i, &dword, 4);
        sp_emu_wrote(&cp->x->tlb, dst + done, n);
        int rc = done % TICK_BYTES < n ? sp_cp_tick(cp, 1) : 0;
        if (rc != 0)
            return rc;
    }
    return 0;
}

int sp_cp_touch(struct sp_cp *cp, uint64_t va, uint64_t nbytes)
{
    for (uint64_t done = 0; done < nbytes; done += sp_emu_left(&cp->x->tlb, va + done))
        if (sp_emu_at(&cp->x->tlb, va + done, SP_VM_READ) == NULL)
            return -EFAULT;
    return 0;
}

static int compares(uint32_t function, uint64_t value, uint64_t reference)
{
    switch (function) {
    case PM4_FUNCTION_ALWAYS: return 1;
    case PM4_FUNCTION_LESS: return value < reference;
    case PM4_FUNCTION_LESS_EQUAL: return value <= reference;
    case PM4_FUNCTION_EQUAL: return value == reference;
    case PM4_FUNCTION_NOT_EQUAL: return value != reference;
    case PM4_FUNCTION_GREATER_EQUAL: return value >= reference;
    case PM4_FUNCTION_GREATER: return value > reference;
    default: return -1;
    }
}

/* Adds the reason to the fault text of a wait that timed out, if the value read is stale: GL2 still
 * holds the old value, and the CPU has written a new one to memory. */
static void name_old(struct sp_cp *cp, uint64_t va, uint32_t nbytes, uint64_t value)
{
    struct sp_emu_fault *fault = &cp->x->fault;
    size_t length = strlen(fault->text);
    struct sp_stale old;
    if (sp_cache_old(&cp->x->tlb, va, (const uint8_t *)&value, nbytes, SP_VM_READ, &old))
        snprintf(fault->text + length, sizeof fault->text - length, "; %s holds %#llx as 0x%08x, memory 0x%08x: expected %s",
                 old.cache, (unsigned long long)old.va, old.held, old.now, old.lacks);
}

int sp_cp_wait(struct sp_cp *cp, uint64_t va, uint32_t nbytes, uint32_t function, uint64_t reference, uint64_t mask,
               uint32_t retries)
{
    for (uint32_t tries = 0;; tries++) {
        uint64_t value;
        int rc = sp_cp_poll(cp, va, nbytes, &value);
        if (rc != 0)
            return rc;
        int met = compares(function, value & mask, reference);
        if (met < 0)
            return sp_cp_fault(cp, SP_FAULT_RESERVED, "function %u compares nothing", function);
        if (met > 0 && tries > 0 && cp->x->tlb.l2 != NULL && sp_emu_by_cpu(&cp->x->tlb, va))
            return sp_cp_fault(cp, SP_FAULT_STALE, "the CPU wrote VRAM at %#llx after this job was submitted: expected a submission "
                               "after it, whose HDP flush lets the card see it", (unsigned long long)va);
        if (met > 0) {
            sp_async_wait_met(cp, va);
            sp_watch_wait_met(cp->x->watch);
        }
        if (met > 0 || sp_emu_flaw(cp->x->chip, SP_FLAW_WAIT))
            return 0;
        rc = sp_async_run_ready(cp);
        if (rc != 0)
            return rc;
        if (tries == retries && retries != UINT32_MAX)
            return sp_cp_fault(cp, SP_FAULT_TIMEOUT, "%u retries, and the value is still %#llx", retries,
                               (unsigned long long)value);
        rc = sp_cp_pause(cp);
        if (rc == -ETIME)
            name_old(cp, va, nbytes, value);
        if (rc != 0)
            return rc;
    }
}
