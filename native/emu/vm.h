/* GPU virtual memory as a job sees it: 4 KiB pages with rights, each belonging to a BO. The
 * emulated kernel keeps the page tables (kmd/memory/space.c). Command processor, SDMA and waves
 * access them through a view and a TLB of their own thread.
 *
 * Addresses have 48 bits. Bits 63:48 may all be 0 or all be copies of bit 47: hardware itself
 * extends bit 47. The kernel programs it as if there were no hole between the halves (Linux
 * amdgpu_gmc.h, AMDGPU_GMC_HOLE_MASK). Mesa's si_compute.c passes pointers to the upper half with
 * bits 63:48 clear. */
#ifndef SP_EMU_VM_H
#define SP_EMU_VM_H
#include "fault.h"
#include <stddef.h>
#include <string.h>

enum { SP_VM_READ = 1, SP_VM_WRITE = 2, SP_VM_EXECUTE = 4, SP_VM_RIGHTS = 7 };
/* How a wave reads: past its vector L0; past that and GL1; through the scalar cache. No effect
 * without caches. PACKET: an engine reads its IB. */
enum { SP_VM_PAST_L0 = 8, SP_VM_DEVICE = 16, SP_VM_SCALAR = 32, SP_VM_PACKET = 64 };
enum { SP_VM_PAGE = 4096, SP_VM_TLB = 1024 };
/* The TLB's unit of look-up: a page, or a cache's unit of fetch (emu/cache), as bits of its
 * size. */
enum { SP_VM_PAGE_BITS = 12, SP_VM_GRAIN_BITS = 10, SP_VM_GRAIN = 1 << SP_VM_GRAIN_BITS };

/* Contents of unwritten memory, dword by dword: a NaN that is neither text nor a small number.
 * Copies keep it, also the CPU's, and so do caches. An equal value of a program differs from it by
 * the mark of its page: no mark, no poison. A page is marked when poison is stored to it, in GL2 or
 * in memory, and stays so. Thus every holder of a copy finds the mark. The other mark says that an
 * agent of a card has been about to write there. If a page without it changes, the CPU has written
 * it. */
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

/* One job's view: an address space and the BOs that the job listed (VM_ALWAYS_VALID ones need no
 * listing). */
struct sp_emu_view {
    struct sp_emu_vm *vm;
    struct kmd_bo *const *listed; /* sorted by address: a handle may name another BO by now */
    uint32_t listed_count;
    uint32_t any_bo; /* lenient: unlisted BOs may be touched, except userptrs */
};

/* A small cache of look-ups per thread, emptied when a job begins. With caches (emu/cache), plain
 * reads of a wave come from its L0, everything else from GL2: hence two tables. */
enum { SP_TLB_READ, SP_TLB_L2, SP_TLBS };
struct sp_emu_entry {
    uint64_t page; /* va >> bits of the TLB, UINT64_MAX: empty */
    uint8_t *host;
    uint8_t *dirty; /* of a piece of GL2; NULL: memory itself */
    uint8_t *mark;  /* of the page: nonzero if poison may be in it; NULL: marks are not kept */
    uint64_t line;  /* its number in the machine's memory */
    uint32_t rights;
    uint16_t cached; /* not mapped UC */
    uint16_t remote; /* over the bus of a card with memory of its own */
};
struct sp_emu_tlb {
    const struct sp_emu_view *view;
    struct sp_emu_fault *fault;
    uint32_t bits;         /* SP_VM_PAGE_BITS or, with caches, SP_VM_GRAIN_BITS */
    struct sp_l2 *l2;      /* NULL: no caches */
    struct sp_cu *cu;      /* of a wave; NULL: an engine, which uses only GL2 */
    uint32_t name_stale;   /* a stale read is a fault */
    struct sp_watch *watch; /* emu/order: concurrent packets and jobs; NULL: none */
    uint32_t write_around; /* SDMA: reads GL2's bytes, but leaves nothing in it */
    uint32_t filled[SP_VM_TLB / 32]; /* a bit for each nonempty entry of SP_TLB_READ */
    struct sp_emu_entry entry[SP_TLBS][SP_VM_TLB];
};
void sp_emu_tlb_reset(struct sp_emu_tlb *tlb, const struct sp_emu_view *view, struct sp_emu_fault *fault);
/* The slow path of sp_emu_at: fills an entry and checks rights. NULL with the fault filled. */
uint8_t *sp_emu_tlb_miss(struct sp_emu_tlb *tlb, uint64_t va, uint32_t access);

/* Offset of `va` in the TLB's unit, and the bytes left in it. */
static inline uint64_t sp_emu_in(const struct sp_emu_tlb *tlb, uint64_t va)
{
    return va & ((UINT64_C(1) << tlb->bits) - 1);
}
static inline uint64_t sp_emu_left(const struct sp_emu_tlb *tlb, uint64_t va)
{
    return (UINT64_C(1) << tlb->bits) - sp_emu_in(tlb, va);
}

/* Host address of `va` for one access within the TLB's unit; NULL with the fault filled. A writer
 * announces its write before and after (sp_emu_writes, sp_emu_wrote). */
static inline uint8_t *sp_emu_at(struct sp_emu_tlb *tlb, uint64_t va, uint32_t access)
{
    uint64_t page = va >> tlb->bits;
    const struct sp_emu_entry *e = &tlb->entry[access == SP_VM_READ ? SP_TLB_READ : SP_TLB_L2][page % SP_VM_TLB];
    if (e->page == page && (e->rights & access) == access)
        return e->host + sp_emu_in(tlb, va);
    return sp_emu_tlb_miss(tlb, va, access);
}

/* emu/order: logs an access to bytes of one page that was just looked up. */
enum sp_touch { SP_READS, SP_WRITES, SP_ATOMIC, SP_TOUCHES };
void sp_order_note(struct sp_emu_tlb *tlb, uint64_t va, size_t nbytes, enum sp_touch touch);
/* 1 if each read must be checked, by sp_emu_saw: -EFAULT: the value must not be used. */
static inline int sp_emu_is_watched(const struct sp_emu_tlb *tlb)
{
    return tlb->name_stale || tlb->watch;
}

/* No effect without caches. The check: -EFAULT with a named fault if `got`, read so at `va`, is
 * stale. */
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
/* Where a read with `access` (SP_VM_READ and how) finds the bytes of `va`: memory, or a copy in a
 * cache. */
const uint8_t *sp_emu_seen(struct sp_emu_tlb *tlb, uint64_t va, uint32_t access);

/* The mark of the page of `va`, which sp_emu_at has just looked up; NULL: marks are not kept. */
static inline uint8_t *sp_emu_mark_of(const struct sp_emu_tlb *tlb, uint64_t va)
{
    uint64_t page = va >> tlb->bits;
    for (unsigned k = 0; k < SP_TLBS; k++)
        if (tlb->entry[k][page % SP_VM_TLB].page == page)
            return tlb->entry[k][page % SP_VM_TLB].mark;
    return NULL;
}
/* 1 if that page, or any cache's copy of it, may contain poison. */
static inline int sp_emu_marked(const struct sp_emu_tlb *tlb, uint64_t va)
{
    const uint8_t *mark = sp_emu_mark_of(tlb, va);
    return mark && __atomic_load_n(mark, __ATOMIC_RELAXED) & SP_MARK_POISON;
}
/* Address of the first poisoned dword among those just read at an aligned `va`, or SP_NO_POISON. */
uint64_t sp_emu_poison_of(const struct sp_emu_tlb *tlb, uint64_t va, const void *got, size_t nbytes);
/* As above for an allowed read of any alignment: repeats the read. */
uint64_t sp_emu_poison_in(struct sp_emu_tlb *tlb, uint64_t va, size_t nbytes, uint32_t access);
/* Poisons the dword at an aligned `va`, which was written just before. No effect if marks are not
 * kept. */
void sp_emu_poison_put(struct sp_emu_tlb *tlb, uint64_t va);
/* After a copy of bytes between two ranges just looked up: marks the target if the source may be
 * poisoned. */
void sp_emu_poison_copied(struct sp_emu_tlb *tlb, uint64_t to, uint64_t from);

/* 1 if `va` is in a card's VRAM behind the bus and only the CPU has written that page. Never
 * faults. */
int sp_emu_by_cpu(const struct sp_emu_tlb *tlb, uint64_t va);
/* 1 if the page of an address belongs to a BO in VRAM. Never faults. */
int sp_emu_in_vram(const struct sp_emu_tlb *tlb, uint64_t va);

/* Any length, any alignment. 0, or -EFAULT with the fault filled after a part of the access. */
int sp_emu_read_as(struct sp_emu_tlb *tlb, uint64_t va, void *to, size_t nbytes, uint32_t access);
static inline int sp_emu_read(struct sp_emu_tlb *tlb, uint64_t va, void *to, size_t nbytes)
{
    return sp_emu_read_as(tlb, va, to, nbytes, SP_VM_READ);
}
int sp_emu_write(struct sp_emu_tlb *tlb, uint64_t va, const void *from, size_t nbytes);
#endif
