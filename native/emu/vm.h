/* GPU virtual memory as a job sees it: 4 KiB pages with rights, each belonging to a BO. Page tables are kept by the
 * emulated kernel (kmd/memory/space.c); command processor, SDMA and waves come here through a view and a TLB of their own thread.
 *
 * Addresses have 48 bits. Bits 63:48 may all be 0 or all be copies of bit 47: hardware extends bit 47 by itself. The
 * kernel programs it as if there were no hole between the halves (Linux amdgpu_gmc.h, AMDGPU_GMC_HOLE_MASK), and Mesa's
 * si_compute.c passes pointers to the upper half with bits 63:48 clear. */
#ifndef SP_EMU_VM_H
#define SP_EMU_VM_H
#include "fault.h"
#include <stddef.h>
#include <string.h>

enum { SP_VM_READ = 1, SP_VM_WRITE = 2, SP_VM_EXECUTE = 4, SP_VM_RIGHTS = 7 };
/* How a wave reads: past its vector L0; past that and GL1; through the scalar cache. Nothing without caches. PACKET: an engine, of
 * its IB. */
enum { SP_VM_PAST_L0 = 8, SP_VM_DEVICE = 16, SP_VM_SCALAR = 32, SP_VM_PACKET = 64 };
enum { SP_VM_PAGE = 4096, SP_VM_TLB = 1024 };
/* What the TLB looks up at once: a page, or what a cache fetches at once (emu/cache), as bits of its size. */
enum { SP_VM_PAGE_BITS = 12, SP_VM_GRAIN_BITS = 10, SP_VM_GRAIN = 1 << SP_VM_GRAIN_BITS };

/* What memory holds that nobody has written, dword by dword: a NaN, no text, no small number. Whoever copies it, the CPU too,
 * keeps it, and so do caches. A value that happens to be the same is told from it by the mark of its page: no mark, no poison.
 * A page is marked when poison is stored to it, in GL2 or in memory, and stays so: whoever holds a copy finds the mark. The other
 * mark says that an agent of a card has been about to write there: what changes in a page without it the CPU has written. */
enum { SP_MARK_POISON = 1, SP_MARK_AGENT = 2 };
#define SP_POISON UINT32_C(0xFFAB5EED)
#define SP_NO_POISON UINT64_MAX

struct sp_emu_vm;
struct kmd_bo;
struct sp_l2;
struct sp_cu;
struct sp_watch;

static inline uint64_t sp_emu_canonical(uint64_t va)
{
    return (uint64_t)((int64_t)(va << 16) >> 16);
}
static inline int sp_emu_is_address(uint64_t va)
{
    return va >> 48 == 0 || va == sp_emu_canonical(va);
}

/* One job's eyes: an address space and the BOs that the job listed (VM_ALWAYS_VALID ones need no listing). */
struct sp_emu_view {
    struct sp_emu_vm *vm;
    struct kmd_bo *const *listed; /* sorted by address: a handle may be another BO's by now */
    uint32_t listed_count;
    uint32_t any_bo; /* lenient: unlisted BOs may be touched, but no userptrs */
};

/* A small cache of look-ups, one a thread; emptied when a job begins. With caches (emu/cache), plain reads of a wave come from
 * its L0, everything else from GL2: hence two tables. */
enum { SP_TLB_READ, SP_TLB_L2, SP_TLBS };
struct sp_emu_entry {
    uint64_t page; /* va >> bits of the TLB, UINT64_MAX: empty */
    uint8_t *host;
    uint8_t *dirty; /* of a piece of GL2; NULL: memory itself */
    uint8_t *mark;  /* of the page: not 0 when poison may be in it; NULL where nobody keeps marks */
    uint64_t line;  /* its number in the machine's memory */
    uint32_t rights;
    uint16_t cached; /* not mapped UC */
    uint16_t remote; /* over the bus of a card that has memory of its own */
};
struct sp_emu_tlb {
    const struct sp_emu_view *view;
    struct sp_emu_fault *fault;
    uint32_t bits;         /* SP_VM_PAGE_BITS or, with caches, SP_VM_GRAIN_BITS */
    struct sp_l2 *l2;      /* NULL: no caches */
    struct sp_cu *cu;      /* a wave's; NULL: an engine, which has none but GL2 */
    uint32_t name_stale;   /* a read of old bytes is a fault */
    struct sp_watch *watch; /* emu/order: what may run beside this; NULL: nothing */
    uint32_t write_around; /* SDMA: takes what GL2 has, but leaves nothing in it */
    uint32_t filled[SP_VM_TLB / 32]; /* a bit for each entry of SP_TLB_READ that is not empty */
    struct sp_emu_entry entry[SP_TLBS][SP_VM_TLB];
};
void sp_emu_tlb_reset(struct sp_emu_tlb *tlb, const struct sp_emu_view *view, struct sp_emu_fault *fault);
/* The slow path of sp_emu_at: fills an entry and checks rights. NULL with the fault filled. */
uint8_t *sp_emu_tlb_miss(struct sp_emu_tlb *tlb, uint64_t va, uint32_t access);

/* Where `va` is in what the TLB looks up at once, and how much of that is left. */
static inline uint64_t sp_emu_in(const struct sp_emu_tlb *tlb, uint64_t va)
{
    return va & ((UINT64_C(1) << tlb->bits) - 1);
}
static inline uint64_t sp_emu_left(const struct sp_emu_tlb *tlb, uint64_t va)
{
    return (UINT64_C(1) << tlb->bits) - sp_emu_in(tlb, va);
}

/* Host address of `va` for one access that does not cross what is looked up at once; NULL with the fault filled. Who
 * writes there says so before and after (sp_emu_writes, sp_emu_wrote). */
static inline uint8_t *sp_emu_at(struct sp_emu_tlb *tlb, uint64_t va, uint32_t access)
{
    uint64_t page = va >> tlb->bits;
    const struct sp_emu_entry *e = &tlb->entry[access == SP_VM_READ ? SP_TLB_READ : SP_TLB_L2][page % SP_VM_TLB];
    if (e->page == page && (e->rights & access) == access)
        return e->host + sp_emu_in(tlb, va);
    return sp_emu_tlb_miss(tlb, va, access);
}

/* emu/order: notes an access to bytes of one page, just reached. */
enum sp_touch { SP_READS, SP_WRITES, SP_ATOMIC, SP_TOUCHES };
void sp_order_note(struct sp_emu_tlb *tlb, uint64_t va, size_t nbytes, enum sp_touch touch);
/* Is each read to be seen? Then by sp_emu_saw: -EFAULT when it must not be used. */
static inline int sp_emu_is_watched(const struct sp_emu_tlb *tlb)
{
    return tlb->name_stale || tlb->watch;
}

/* Nothing without caches. The check: -EFAULT, named, when `got`, read so at `va`, is older than what it should be. */
int sp_cache_check(struct sp_emu_tlb *tlb, uint64_t va, const uint8_t *got, size_t nbytes, uint32_t access);
void sp_cache_writes(struct sp_emu_tlb *tlb, uint64_t va, size_t nbytes);
void sp_cache_wrote(struct sp_emu_tlb *tlb, uint64_t va, size_t nbytes);
static inline int sp_emu_saw(struct sp_emu_tlb *tlb, uint64_t va, const uint8_t *got, size_t nbytes, uint32_t access)
{
    if (tlb->watch)
        sp_order_note(tlb, va, nbytes, SP_READS);
    return tlb->name_stale ? sp_cache_check(tlb, va, got, nbytes, access) : 0;
}
static inline void sp_emu_writes_as(struct sp_emu_tlb *tlb, uint64_t va, size_t nbytes, enum sp_touch touch)
{
    if (!tlb->l2)
        return;
    sp_cache_writes(tlb, va, nbytes);
    if (tlb->watch)
        sp_order_note(tlb, va, nbytes, touch);
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
/* Where a read by `access` (SP_VM_READ and how) finds the bytes of `va`: memory, or a copy in a cache. */
const uint8_t *sp_emu_seen(struct sp_emu_tlb *tlb, uint64_t va, uint32_t access);

/* The mark of the page of `va`, which sp_emu_at has just reached; NULL: nobody keeps one. */
static inline uint8_t *sp_emu_mark_of(const struct sp_emu_tlb *tlb, uint64_t va)
{
    uint64_t page = va >> tlb->bits;
    for (unsigned k = 0; k < SP_TLBS; k++)
        if (tlb->entry[k][page % SP_VM_TLB].page == page)
            return tlb->entry[k][page % SP_VM_TLB].mark;
    return NULL;
}
/* May there be poison in that page, or in what any cache holds of it? */
static inline int sp_emu_marked(const struct sp_emu_tlb *tlb, uint64_t va)
{
    const uint8_t *mark = sp_emu_mark_of(tlb, va);
    return mark && __atomic_load_n(mark, __ATOMIC_RELAXED) & SP_MARK_POISON;
}
/* The first poisoned dword of those that were just read at an aligned `va`, as its address, or SP_NO_POISON. */
uint64_t sp_emu_poison_of(const struct sp_emu_tlb *tlb, uint64_t va, const void *got, size_t nbytes);
/* The same of a read of any alignment, which was allowed: it is done once more. */
uint64_t sp_emu_poison_in(struct sp_emu_tlb *tlb, uint64_t va, size_t nbytes, uint32_t access);
/* Poisons the dword at an aligned `va`, which was written just before; where nobody keeps marks nothing happens. */
void sp_emu_poison_put(struct sp_emu_tlb *tlb, uint64_t va);
/* At a copy of bytes from one range to another, both just reached: the copy may be poisoned where its source may be. */
void sp_emu_poison_copied(struct sp_emu_tlb *tlb, uint64_t to, uint64_t from);

/* Is `va` in a card's VRAM, behind the bus, and has nobody but the CPU written that page? Faults nothing. */
int sp_emu_by_cpu(const struct sp_emu_tlb *tlb, uint64_t va);
/* Does the page of an address belong to a BO that is in VRAM? Faults nothing. */
int sp_emu_in_vram(const struct sp_emu_tlb *tlb, uint64_t va);

/* Any length, any alignment; 0 or -EFAULT with the fault filled, whatever was done before it. */
int sp_emu_read_as(struct sp_emu_tlb *tlb, uint64_t va, void *to, size_t nbytes, uint32_t access);
static inline int sp_emu_read(struct sp_emu_tlb *tlb, uint64_t va, void *to, size_t nbytes)
{
    return sp_emu_read_as(tlb, va, to, nbytes, SP_VM_READ);
}
int sp_emu_write(struct sp_emu_tlb *tlb, uint64_t va, const void *from, size_t nbytes);
#endif
