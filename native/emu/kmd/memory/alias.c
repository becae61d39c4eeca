/* The flaw SP_FLAW_LINE, a broken address line of the card's memory: some pages of a BO show the
 * contents of other pages. */
#define _GNU_SOURCE /* for MAP_FIXED over a mapping of the memfd */
#include "memory.h"

#include <sys/mman.h>

/* only the first MOST_PAGES pages of a mapping get this flaw */
enum { MOST_PAGES = 1 << 14 };

/* Imitates a card with a broken address line (SP_FLAW_LINE): one bit of each offset in a BO is
 * lost. Every page at an offset with this bit set is replaced by the page at the offset without
 * it. */
void kmd_alias(const struct kmd_bo *bo, uint8_t *at, uint64_t offset, uint64_t nbytes)
{
    const struct sp_emu_flaw_of *flaw = sp_emu_flaw(&bo->card->chip.core, SP_FLAW_LINE);
    if (!flaw || bo->domain != flaw->a || bo->userptr)
        return;
    for (uint64_t done = 0, pages = 0; done < nbytes && pages < MOST_PAGES; done += KMD_PAGE, pages++) {
        uint64_t place = offset - bo->offset + done;
        if (place >> flaw->b & 1)
            mmap(at + done, KMD_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, bo->card->machine->memfd,
                 (off_t)(bo->offset + (place & ~(UINT64_C(1) << flaw->b))));
    }
}
