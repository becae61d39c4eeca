/* Plants flaws. The flaw SP_FLAW_BIT (a stuck data bit) has a thread here, because the emulator
 * does not see the CPU's accesses to mapped memory. All other flaws are implemented in the code
 * that they affect. */
#include "faults.h"

#include <time.h>

int sp_emu_plant(struct sp_emu_machine *handle, uint32_t index, uint32_t flaw, uint64_t a, uint64_t b)
{
    struct kmd_machine *machine = (struct kmd_machine *)handle;
    if (index >= machine->cards || flaw >= SP_FLAWS || machine->generation != kmd_generation())
        return -EINVAL;
    if (flaw == SP_FLAW_LINE && (b < 12 || b > 40))
        return -EINVAL;
    kmd_enter(machine);
    struct kmd_card *card = &machine->card[index];
    card->chip.core.flaw[flaw] = (struct sp_emu_flaw_of){1, a, b};
    int rc = flaw == SP_FLAW_BIT ? kmd_stuck_start(card) : 0;
    kmd_leave(machine);
    return rc;
}

static void force(struct kmd_card *card)
{
    const struct sp_emu_flaw_of *flaw = sp_emu_flaw(&card->chip.core, SP_FLAW_BIT);
    struct kmd_machine *machine = card->machine;
    uint64_t at = flaw->b / 32 * 4;
    for (uint32_t f = 0; f < machine->files.capacity; f++) {
        const struct kmd_file *file = machine->files.slot[f];
        for (uint32_t i = 0; file && i < file->bos.capacity; i++) {
            const struct kmd_bo *bo = file->bos.slot[i];
            if (bo && bo->card == card && bo->domain == flaw->a && !bo->userptr && at + 4 <= bo->nbytes)
                __atomic_fetch_or((uint32_t *)(void *)(bo->host + at), 1U << flaw->b % 32, __ATOMIC_RELAXED);
        }
    }
}

/* Thread that sets the stuck bit every 20 us, because the emulator does not see the CPU's writes to
 * mapped memory. A program that writes much data takes longer than 20 us to read the data back, so
 * it finds the bit set. */
static void *stuck(void *argument)
{
    const struct timespec nap = {0, 20000};
    struct kmd_card *card = argument;
    while (!__atomic_load_n(&card->machine->closing, __ATOMIC_RELAXED)) {
        pthread_mutex_lock(&card->machine->lock);
        if (!card->machine->closing)
            force(card);
        pthread_mutex_unlock(&card->machine->lock);
        nanosleep(&nap, NULL);
    }
    return NULL;
}

int kmd_stuck_start(struct kmd_card *card)
{
    if (!card->stuck_started && pthread_create(&card->stuck, NULL, stuck, card) != 0)
        return -ENOMEM;
    card->stuck_started = true;
    return 0;
}

void kmd_stuck_stop(struct kmd_card *card)
{
    if (card->stuck_started)
        pthread_join(card->stuck, NULL);
    card->stuck_started = false;
}
