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

enum { SP_VM_READ = 1, SP_VM_WRITE = 2, SP_VM_EXECUTE = 4 };
enum { SP_VM_PAGE = 4096, SP_VM_TLB = 1024 };

/* What memory holds that nobody has written, dword by dword: a NaN, no text, no small number. Whoever copies it, the CPU too,
 * keeps it. A value that happens to be the same is told from it by the mark of its page: no mark, no poison. */
#define SP_POISON UINT32_C(0xFFAB5EED)
#define SP_NO_POISON UINT64_MAX

struct sp_emu_vm;
struct kmd_bo;

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

/* A small cache of pages, one a thread; emptied when a job begins. */
struct sp_emu_tlb {
    const struct sp_emu_view *view;
    struct sp_emu_fault *fault;
    struct {
        uint64_t page; /* va / SP_VM_PAGE, UINT64_MAX: empty */
        uint8_t *host;
        uint8_t *mark; /* of the page: not 0 when poison may be in it; NULL where nobody keeps marks */
        uint32_t rights;
        uint32_t pad;
    } entry[SP_VM_TLB];
};
void sp_emu_tlb_reset(struct sp_emu_tlb *tlb, const struct sp_emu_view *view, struct sp_emu_fault *fault);
/* The slow path of sp_emu_at: fills an entry and checks rights. NULL with the fault filled. */
uint8_t *sp_emu_tlb_miss(struct sp_emu_tlb *tlb, uint64_t va, uint32_t access);

/* Host address of `va` for one access that does not cross a page; NULL with the fault filled. */
static inline uint8_t *sp_emu_at(struct sp_emu_tlb *tlb, uint64_t va, uint32_t access)
{
    uint64_t page = va / SP_VM_PAGE;
    unsigned slot = (unsigned)(page % SP_VM_TLB);
    if (tlb->entry[slot].page == page && (tlb->entry[slot].rights & access) == access)
        return tlb->entry[slot].host + va % SP_VM_PAGE;
    return sp_emu_tlb_miss(tlb, va, access);
}

/* May there be poison in the page of `va`, which sp_emu_at has just reached? */
static inline int sp_emu_marked(const struct sp_emu_tlb *tlb, uint64_t va)
{
    uint64_t page = va / SP_VM_PAGE;
    unsigned slot = (unsigned)(page % SP_VM_TLB);
    const uint8_t *mark = tlb->entry[slot].page == page ? tlb->entry[slot].mark : NULL;
    return mark && __atomic_load_n(mark, __ATOMIC_RELAXED);
}
/* The first poisoned dword that an access touches, as its address, or SP_NO_POISON. The access was allowed already. */
uint64_t sp_emu_poison_in(struct sp_emu_tlb *tlb, uint64_t va, size_t nbytes);
/* Poisons the dword at an aligned `va`, which was written just before; where nobody keeps marks nothing happens. */
void sp_emu_poison_put(struct sp_emu_tlb *tlb, uint64_t va);
/* After a copy of bytes from one range to another: is the copy poisoned where its source is? */
void sp_emu_poison_copied(struct sp_emu_tlb *tlb, uint64_t to, uint64_t from);

/* Does the page of an address belong to a BO that is in VRAM? Faults nothing. */
int sp_emu_in_vram(const struct sp_emu_tlb *tlb, uint64_t va);

/* Any length, any alignment; 0 or -EFAULT with the fault filled, whatever was done before it. */
int sp_emu_read(struct sp_emu_tlb *tlb, uint64_t va, void *to, size_t nbytes);
int sp_emu_write(struct sp_emu_tlb *tlb, uint64_t va, const void *from, size_t nbytes);
#endif
