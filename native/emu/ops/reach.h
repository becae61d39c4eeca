/* A lane's access to memory: from an address to the host's bytes. */
#ifndef SP_EMU_OPS_REACH_H
#define SP_EMU_OPS_REACH_H
#include "emu/wave/operand.h"

#define SP_INLINE static inline __attribute__((always_inline))

/* The page of an instruction's last access. It saves look-ups, because neighbouring lanes mostly
 * share a page. */
struct sp_reach {
    struct sp_wave *w;
    /* address of the first byte of the memory that the TLB entry of the last access stands for (a
     * page or 1 KiB); 1: there was no access yet */
    uint64_t page;
    uint64_t mask; /* mask of the address bits within the page */
    uint8_t *host;
    uint32_t access;
};

SP_INLINE struct sp_reach sp_reach_of(struct sp_wave *w, uint32_t access)
{
    return (struct sp_reach){w, 1, (UINT64_C(1) << w->tlb->bits) - 1, NULL, access};
}

/* The slow path of sp_reach_at, for a `va` that is not on the page in `r`: looks up the
 * page and stores it in `r`. Returns the host address or NULL, as sp_reach_at does. Sets the wave's
 * poison_seen if a read may meet poison. */
uint8_t *sp_reach_turn(struct sp_reach *r, uint64_t va, uint32_t nbytes);

/* Returns the host address of `nbytes` at `va`, or NULL. After NULL, fault.kind is 0 if the bytes
 * cross pages; otherwise there is a fault. */
SP_INLINE uint8_t *sp_reach_at(struct sp_reach *r, uint64_t va, uint32_t nbytes)
{
    uint64_t in = va & r->mask;
    if (SP_LIKELY(va - in == r->page && in + nbytes <= r->mask + 1)) return r->host + in;
    return sp_reach_turn(r, va, nbytes);
}

/* Copies as memcpy does, but without a call for the usual widths, even if the compiler learns the
 * width only after inlining. */
SP_INLINE void sp_move(void *to, const void *from, uint32_t nbytes)
{
    switch (nbytes) {
    case 1: memcpy(to, from, 1); break;
    case 2: memcpy(to, from, 2); break;
    case 4: memcpy(to, from, 4); break;
    case 8: memcpy(to, from, 8); break;
    case 16: memcpy(to, from, 16); break;
    default: memcpy(to, from, nbytes);
    }
}

SP_INLINE int sp_reach_read(struct sp_reach *r, uint64_t va, void *to, uint32_t nbytes)
{
    const uint8_t *host = sp_reach_at(r, va, nbytes);
    if (SP_UNLIKELY(!host)) {
        int rc = sp_emu_read_as(r->w->tlb, va, to, nbytes, r->access);
        if (!rc && sp_emu_poison_in(r->w->tlb, va, nbytes, r->access) != SP_NO_POISON) r->w->poison_seen = 1;
        return rc;
    }
    sp_move(to, host, nbytes);
    return 0;
}

SP_INLINE int sp_reach_write(struct sp_reach *r, uint64_t va, const void *from, uint32_t nbytes)
{
    uint8_t *host = SP_UNLIKELY(r->w->tlb->l2) ? NULL : sp_reach_at(r, va, nbytes);
    if (SP_UNLIKELY(!host)) return sp_emu_write(r->w->tlb, va, from, nbytes);
    sp_move(host, from, nbytes);
    return 0;
}
#endif
