/* Reads and writes of any length, through the TLB and the caches. */
#include "unit.h"

#include <errno.h>

const uint8_t *sp_emu_seen(struct sp_emu_tlb *tlb, uint64_t va, uint32_t access)
{
    const uint8_t *host = sp_emu_at(tlb, va, access == SP_VM_READ ? SP_VM_READ : SP_VM_READ | SP_VM_DEVICE | (access & SP_VM_SCALAR));
    return host && access != SP_VM_READ && tlb->l2 ? sp_cache_look(tlb, va, host, access) : host;
}

int sp_emu_read_as(struct sp_emu_tlb *tlb, uint64_t va, void *to, size_t nbytes, uint32_t access)
{
    for (size_t done = 0, n; done < nbytes; done += n) {
        const uint8_t *from = sp_emu_seen(tlb, va + done, access);
        n = sp_emu_left(tlb, va + done);
        n = n < nbytes - done ? n : nbytes - done;
        if (!from)
            return -EFAULT;
        if (sp_emu_is_watched(tlb) && sp_emu_saw(tlb, va + done, from, n, access))
            return -EFAULT;
        memcpy((uint8_t *)to + done, from, n);
    }
    return 0;
}

int sp_emu_write(struct sp_emu_tlb *tlb, uint64_t va, const void *from, size_t nbytes)
{
    for (size_t done = 0, n; done < nbytes; done += n) {
        uint8_t *to = sp_emu_at(tlb, va + done, SP_VM_WRITE);
        n = sp_emu_left(tlb, va + done);
        n = n < nbytes - done ? n : nbytes - done;
        if (!to)
            return -EFAULT;
        sp_emu_writes(tlb, va + done, n);
        memcpy(to, (const uint8_t *)from + done, n);
        sp_emu_wrote(tlb, va + done, n);
    }
    return 0;
}

int sp_emu_fetch(struct sp_emu_tlb *tlb, uint64_t va, void *to, size_t nbytes)
{
    for (size_t done = 0, n; done < nbytes; done += n) {
        const uint8_t *from = sp_emu_at(tlb, va + done, SP_VM_READ | SP_VM_DEVICE | SP_VM_PACKET);
        uint32_t at = (va + done) % SP_VM_GRAIN;
        n = SP_VM_GRAIN - at < nbytes - done ? SP_VM_GRAIN - at : nbytes - done;
        if (!from) return -EFAULT;
        memcpy((uint8_t *)to + done, from, n);
        const struct sp_emu_entry *e = tlb->l2 ? sp_cache_entry(tlb, va + done) : NULL;
        if (e && e->remote && !e->dirty) sp_l2_bus(tlb->l2, SP_BUS_PACKETS, n);
        for (size_t k = 0; e && e->dirty && k < n; k++)
            if (!(e->dirty[(at + k) / 4] >> (at + k) % 4 & 1)) ((uint8_t *)to)[done + k] = sp_cache_grain(e)->mem[at + k];
    }
    return 0;
}
