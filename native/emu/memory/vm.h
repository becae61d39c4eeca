/* GPU virtual memory as a job sees it: 4 KiB pages with rights; each page belongs to a BO. The
 * emulated kernel driver keeps the page tables and looks a page up (kmd/memory/pages.c). The command
 * processor, SDMA and waves access pages through a view of the job and a TLB of their own thread.
 *
 * Addresses have 48 bits. Bits 63:48 may all be 0 or all be copies of bit 47: hardware itself
 * extends bit 47. The kernel driver programs page tables as if there were no hole between the
 * halves (Linux amdgpu_gmc.h, AMDGPU_GMC_HOLE_MASK). Mesa's si_compute.c passes pointers to the
 * upper half with bits 63:48 clear. */
#ifndef SP_EMU_MEMORY_VM_H
#define SP_EMU_MEMORY_VM_H
#include "emu/fault.h"
#include "emu/order/log.h"
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

enum { SP_VM_READ = 1, SP_VM_WRITE = 2, SP_VM_EXECUTE = 4, SP_VM_RIGHTS = 7 };
/* Bits that say which caches a read uses: PAST_L0 bypasses the vector L0, DEVICE bypasses L0 and
 * GL1, SCALAR uses the scalar cache. PACKET: an engine reads its IB. No effect without caches. */
enum { SP_VM_PAST_L0 = 8, SP_VM_DEVICE = 16, SP_VM_SCALAR = 32, SP_VM_PACKET = 64 };
enum { SP_VM_PAGE = 4096, SP_VM_TLB = 1024 };
/* Log2 of the bytes for which a TLB entry stands. Without caches they are a page (SP_VM_PAGE_BITS).
 * With caches they are the 1 KiB that a cache fetches at once (SP_VM_GRAIN_BITS of order/log.h). */
enum { SP_VM_PAGE_BITS = 12 };

/* Marks of a page (SP_MARK_*), and SP_POISON. SP_POISON is the value of each dword of unwritten
 * memory: a NaN that is neither text nor a small number. Copies of a dword keep that value.
 *
 * A program may also write this value itself. So a dword is poison only if it has the value, and
 * its page has the mark SP_MARK_POISON. A page gets that mark when poison is stored to it, in GL2
 * or in memory, and never loses it.
 *
 * A page gets the mark SP_MARK_AGENT before an agent of a card writes to it. If a page without that
 * mark changes, the CPU has written it. */
enum { SP_MARK_POISON = 1, SP_MARK_AGENT = 2 };
#define SP_POISON UINT32_C(0xFFAB5EED)
#define SP_NO_POISON UINT64_MAX

struct sp_emu_vm;
struct kmd_bo;
struct sp_l2;
struct sp_cu;

static inline uint64_t sp_emu_canonical(uint64_t va)
{
    return (uint64_t)((int64_t)(va << 16) >> 16);
}
static inline int sp_emu_is_address(uint64_t va)
{
    return va >> 48 == 0 || va == sp_emu_canonical(va);
}

/* What the page tables say of one page. */
struct sp_emu_page {
    uint8_t *host;   /* NULL: a PRT page, which reads as zeros and drops writes */
    uint8_t *mark;   /* SP_MARK_* of the page; NULL: marks are not kept */
    uint64_t place;  /* offset of the page in the emulated machine's memory; no later page has it */
    uint32_t rights; /* SP_VM_* */
    bool uncached;   /* no cache of the card may hold the page */
    bool in_vram;
    bool remote;     /* accesses go over the bus of a card with memory of its own */
    bool has_bus;    /* the card has a bus: it is not an APU */
};

/* One job's view of memory: an address space, and the BOs that the job lists (BOs with
 * VM_ALWAYS_VALID need no listing). */
struct sp_emu_view {
    /* Looks up the page of an address in the page tables. Returns 0, or -EFAULT with a description
     * of the fault. */
    int (*find)(const struct sp_emu_view *view, uint64_t va, struct sp_emu_page *page, struct sp_emu_fault *fault);
    struct sp_emu_vm *vm;
    /* The BOs that the job lists, sorted by pointer. They are not handles, because a handle may
     * name another BO by now. */
    struct kmd_bo *const *listed;
    uint32_t listed_count;
    /* 1 (leniency "unlisted"): the job may also access BOs that it does not list, except
     * userptrs */
    uint32_t any_bo;
};

/* The TLB of a host thread: a small cache of looked-up addresses, emptied when a job begins. It has
 * two tables. With caches, plain reads of a wave use SP_TLB_READ, which leads to the
 * wave's L0. All other accesses use SP_TLB_L2, which leads to GL2. */
enum { SP_TLB_READ, SP_TLB_L2, SP_TLBS };
struct sp_emu_entry {
    uint64_t page; /* va >> bits of the TLB; UINT64_MAX: the entry is empty */
    uint8_t *host;
    /* dirty bits of the 1 KiB of GL2 that `host` points into; NULL: `host` points into memory
     * itself */
    uint8_t *dirty;
    uint8_t *mark;  /* marks of the page: SP_MARK_*; NULL: marks are not kept */
    uint64_t line;  /* number of the block of 1 KiB in the emulated machine's memory */
    uint32_t rights;
    uint16_t cached; /* 1 unless the page is mapped UC */
    uint16_t remote; /* 1 if accesses go over the bus of a card with memory of its own */
};
struct sp_emu_tlb {
    const struct sp_emu_view *view;
    struct sp_emu_fault *fault;
    /* log2 of the bytes of an entry: SP_VM_PAGE_BITS or, with caches, SP_VM_GRAIN_BITS */
    uint32_t bits;
    struct sp_l2 *l2;      /* NULL: no caches */
    /* the CU whose waves use this TLB. NULL: the command processor or SDMA uses it, and their
     * accesses pass through GL2 only. */
    struct sp_cu *cu;
    uint32_t name_stale;   /* 1: a stale read is a fault */
    /* compares each access with the logs of concurrent packets and jobs (emu/order); NULL: accesses
     * are not compared */
    struct sp_watch *watch;
    uint32_t write_around; /* 1 for SDMA: it reads bytes that GL2 holds, but brings none into GL2 */
    uint32_t filled[SP_VM_TLB / 32]; /* a bit for each nonempty entry of SP_TLB_READ */
    struct sp_emu_entry entry[SP_TLBS][SP_VM_TLB];
};
void sp_emu_tlb_reset(struct sp_emu_tlb *tlb, const struct sp_emu_view *view, struct sp_emu_fault *fault);
/* The slow path of sp_emu_at: fills a TLB entry and checks rights. On a fault, describes it in
 * *tlb->fault and returns NULL. */
uint8_t *sp_emu_tlb_miss(struct sp_emu_tlb *tlb, uint64_t va, uint32_t access);

/* The pages of a TLB have 1 << tlb->bits bytes. sp_emu_in returns the offset of `va` in its page,
 * sp_emu_left the number of bytes from `va` to the page's end. */
static inline uint64_t sp_emu_in(const struct sp_emu_tlb *tlb, uint64_t va)
{
    return va & ((UINT64_C(1) << tlb->bits) - 1);
}
static inline uint64_t sp_emu_left(const struct sp_emu_tlb *tlb, uint64_t va)
{
    return (UINT64_C(1) << tlb->bits) - sp_emu_in(tlb, va);
}

/* Returns the host address of `va`. On a fault, describes it in *tlb->fault and returns NULL. The
 * address is good for one access that stays in the page (1 << tlb->bits bytes) of `va`. A writer
 * calls sp_emu_writes before the write and sp_emu_wrote after it. */
static inline uint8_t *sp_emu_at(struct sp_emu_tlb *tlb, uint64_t va, uint32_t access)
{
    uint64_t page = va >> tlb->bits;
    const struct sp_emu_entry *e = &tlb->entry[access == SP_VM_READ ? SP_TLB_READ : SP_TLB_L2][page % SP_VM_TLB];
    if (e->page == page && (e->rights & access) == access)
        return e->host + sp_emu_in(tlb, va);
    return sp_emu_tlb_miss(tlb, va, access);
}

/* Logs an access to `nbytes` bytes at `va` in tlb->watch (emu/order). They must be in one page, which
 * was just looked up. */
void sp_emu_note(struct sp_emu_tlb *tlb, uint64_t va, size_t nbytes, enum sp_touch touch);
/* Returns 1 if sp_emu_saw must check each read. If sp_emu_saw returns -EFAULT, the value that was
 * read must not be used. */
static inline int sp_emu_is_watched(const struct sp_emu_tlb *tlb)
{
    return tlb->name_stale || tlb->watch;
}

/* `got` has the bytes that were just read at `va`. If they are stale, sp_cache_check returns
 * -EFAULT, with a fault that names the cache. Call sp_cache_writes before a write and
 * sp_cache_wrote after it; they mark the bytes as dirty in GL2, and update the copies in the
 * writer's own caches. No effect without caches. */
int sp_cache_check(struct sp_emu_tlb *tlb, uint64_t va, const uint8_t *got, size_t nbytes, uint32_t access);
void sp_cache_writes(struct sp_emu_tlb *tlb, uint64_t va, size_t nbytes);
void sp_cache_wrote(struct sp_emu_tlb *tlb, uint64_t va, size_t nbytes);
static inline int sp_emu_saw(struct sp_emu_tlb *tlb, uint64_t va, const uint8_t *got, size_t nbytes, uint32_t access)
{
    if (tlb->watch)
        sp_emu_note(tlb, va, nbytes, SP_READS);
    return tlb->name_stale ? sp_cache_check(tlb, va, got, nbytes, access) : 0;
}
static inline void sp_emu_writes_as(struct sp_emu_tlb *tlb, uint64_t va, size_t nbytes, enum sp_touch touch)
{
    if (!tlb->l2)
        return;
    sp_cache_writes(tlb, va, nbytes);
    if (tlb->watch)
        sp_emu_note(tlb, va, nbytes, touch);
}
static inline void sp_emu_writes(struct sp_emu_tlb *tlb, uint64_t va, size_t nbytes)
{
    sp_emu_writes_as(tlb, va, nbytes, SP_WRITES);
}
static inline void sp_emu_wrote(struct sp_emu_tlb *tlb, uint64_t va, size_t nbytes)
{
    if (tlb->l2)
        sp_cache_wrote(tlb, va, nbytes);
}
/* Returns where a read with `access` finds the bytes of `va`: in memory, or in a copy in a
 * cache. */
const uint8_t *sp_emu_seen(struct sp_emu_tlb *tlb, uint64_t va, uint32_t access);

/* Returns the entry of the page of `va`, which sp_emu_at must just have looked up; else NULL. */
static inline const struct sp_emu_entry *sp_emu_entry_of(const struct sp_emu_tlb *tlb, uint64_t va)
{
    uint64_t page = va >> tlb->bits;
    for (unsigned k = 0; k < SP_TLBS; k++)
        if (tlb->entry[k][page % SP_VM_TLB].page == page)
            return &tlb->entry[k][page % SP_VM_TLB];
    return NULL;
}
/* Returns the mark (its SP_MARK_* bits) of that page. Returns NULL if no marks are kept. */
static inline uint8_t *sp_emu_mark_of(const struct sp_emu_tlb *tlb, uint64_t va)
{
    const struct sp_emu_entry *e = sp_emu_entry_of(tlb, va);
    return e ? e->mark : NULL;
}
/* Returns 1 if the page of `va`, or any cache's copy of it, may contain poison. */
static inline int sp_emu_marked(const struct sp_emu_tlb *tlb, uint64_t va)
{
    const uint8_t *mark = sp_emu_mark_of(tlb, va);
    return mark && __atomic_load_n(mark, __ATOMIC_RELAXED) & SP_MARK_POISON;
}
/* Returns the address of the first poisoned dword among those just read at an aligned `va`, or
 * SP_NO_POISON. */
uint64_t sp_emu_poison_of(const struct sp_emu_tlb *tlb, uint64_t va, const void *got, size_t nbytes);
/* Reads the `nbytes` bytes at `va` again, and returns what sp_emu_poison_of returns for them. The
 * read must be permitted. Its alignment may be any. */
uint64_t sp_emu_poison_in(struct sp_emu_tlb *tlb, uint64_t va, size_t nbytes, uint32_t access);
/* Poisons the dword at an aligned `va` that was just written. No effect if the card keeps no marks
 * of poisoned pages. */
void sp_emu_poison_put(struct sp_emu_tlb *tlb, uint64_t va);
/* Marks the page of `to` with SP_MARK_POISON if the page of `from` may contain poison. Call it
 * after a copy of bytes between two ranges that were just looked up. */
void sp_emu_poison_copied(struct sp_emu_tlb *tlb, uint64_t to, uint64_t from);

/* Returns 1 if `va` is in the VRAM of a card with a bus (not an APU), and only the CPU has written
 * that page. Never faults. */
int sp_emu_by_cpu(const struct sp_emu_tlb *tlb, uint64_t va);
/* Returns 1 if the page of an address belongs to a BO in VRAM. Never faults. */
int sp_emu_in_vram(const struct sp_emu_tlb *tlb, uint64_t va);

/* Reads any length at any alignment. Returns 0, or -EFAULT with a description of the fault in
 * *tlb->fault. After -EFAULT only a part of the bytes may have been read. */
int sp_emu_read_as(struct sp_emu_tlb *tlb, uint64_t va, void *to, size_t nbytes, uint32_t access);
static inline int sp_emu_read(struct sp_emu_tlb *tlb, uint64_t va, void *to, size_t nbytes)
{
    return sp_emu_read_as(tlb, va, to, nbytes, SP_VM_READ);
}
int sp_emu_write(struct sp_emu_tlb *tlb, uint64_t va, const void *from, size_t nbytes);
/* Reads packets of an IB from memory. Bytes that agents have written come from GL2. */
int sp_emu_fetch(struct sp_emu_tlb *tlb, uint64_t va, void *to, size_t nbytes);
#endif
