/* A flawed address line: some pages of a BO show the contents of other pages. */
#define _GNU_SOURCE /* for MAP_FIXED over a mapping of the memfd */
#include "memory.h"

#include <sys/mman.h>

enum { MOST_PAGES = 1 << 14 }; /* most pages of a mapping that are checked */

/* Finds the pages whose offset in the BO has the bit of the flawed line set. Maps in their place
 * the pages whose offset differs only in this bit. */
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
