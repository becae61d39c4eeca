/* Injections: functions by which tests break an emulated machine. The driver under test does not
 * see that they are called. */
#include "faults.h"

#include "emu/memory/l2.h"

#include <string.h>

static struct kmd_card *locked_card(struct sp_emu_machine *handle, uint32_t index)
{
    struct kmd_machine *machine = (struct kmd_machine *)handle;
    if (index >= machine->cards || machine->generation != kmd_generation())
        return NULL;
    kmd_enter(machine);
    return &machine->card[index];
}

static int unlock(struct kmd_card *card)
{
    kmd_leave(card->machine);
    return 0;
}

int sp_emu_fail_ioctl(struct sp_emu_machine *handle, uint32_t nr, uint32_t count, int error)
{
    struct kmd_machine *machine = (struct kmd_machine *)handle;
    if (nr > 0xff || count == 0 || error <= 0 || error > 4095 || machine->generation != kmd_generation())
        return -EINVAL;
    struct kmd_injection *injection = calloc(1, sizeof(*injection));
    if (!injection)
        return -ENOMEM;
    *injection = (struct kmd_injection){NULL, nr, count, error};
    kmd_enter(machine);
    struct kmd_injection **link = &machine->injections;
    while (*link)
        link = &(*link)->next;
    *link = injection;
    kmd_leave(machine);
    return 0;
}

int sp_emu_hang_next_job(struct sp_emu_machine *machine, uint32_t index, uint32_t recovery)
{
    struct kmd_card *card = recovery <= SP_EMU_RECOVER_VRAM_LOST ? locked_card(machine, index) : NULL;
    if (!card)
        return -EINVAL;
    card->hang_next = true;
    card->hang_recovery = recovery;
    return unlock(card);
}

int sp_emu_fault_next_job(struct sp_emu_machine *machine, uint32_t index, uint64_t va)
{
    struct kmd_card *card = locked_card(machine, index);
    if (!card)
        return -EINVAL;
    card->fault_next = true;
    card->fault_va = va;
    return unlock(card);
}

int sp_emu_reset_card(struct sp_emu_machine *machine, uint32_t index, uint32_t vram_lost)
{
    struct kmd_card *card = locked_card(machine, index);
    if (!card)
        return -EINVAL;
    kmd_reset(card, vram_lost != 0);
    return unlock(card);
}

int sp_emu_hold_jobs(struct sp_emu_machine *machine, uint32_t index, uint32_t hold)
{
    struct kmd_card *card = locked_card(machine, index);
    if (!card)
        return -EINVAL;
    card->hold = hold != 0;
    pthread_cond_broadcast(&card->work);
    return unlock(card);
}

int sp_emu_unplug_card(struct sp_emu_machine *machine, uint32_t index)
{
    struct kmd_card *card = locked_card(machine, index);
    if (!card)
        return -EINVAL;
    kmd_unplug(card);
    return unlock(card);
}

int sp_emu_plan(struct sp_emu_machine *machine, uint32_t index, const struct sp_emu_planned *planned)
{
    bool known = planned->action >= SP_EMU_DO_FAIL && planned->action < SP_EMU_ACTIONS && planned->at > 0;
    bool fits = planned->of_jobs ? planned->action != SP_EMU_DO_FAIL : planned->action <= SP_EMU_DO_UNPLUG;
    bool sane = planned->action == SP_EMU_DO_FAIL   ? planned->value - 1 < 4095
                : planned->action == SP_EMU_DO_HANG ? planned->value <= SP_EMU_RECOVER_VRAM_LOST
                                                    : true;
    struct kmd_card *card = known && fits && sane ? locked_card(machine, index) : NULL;
    if (!card)
        return -EINVAL;
    int rc = kmd_plan_add(card, planned);
    unlock(card);
    return rc;
}

int sp_emu_plan_done(struct sp_emu_machine *machine, uint32_t index, uint64_t *counts)
{
    struct kmd_card *card = locked_card(machine, index);
    if (!card)
        return -EINVAL;
    memcpy(counts, card->planned_done, sizeof(card->planned_done));
    return unlock(card);
}

int sp_emu_cache_counts(struct sp_emu_machine *machine, uint32_t index, struct sp_emu_caches *out)
{
    struct kmd_card *card = locked_card(machine, index);
    if (!card)
        return -EINVAL;
    *out = (struct sp_emu_caches){.flushes = 0};
    if (card->l2)
        sp_l2_counts(card->l2, out);
    return unlock(card);
}

int sp_emu_evict(struct sp_emu_machine *machine, uint32_t index, uint64_t times)
{
    struct kmd_card *card = locked_card(machine, index);
    if (!card)
        return -EINVAL;
    card->evictions += times;
    return unlock(card);
}

int sp_emu_userptr_pages(struct sp_emu_machine *machine, uint32_t index, uint64_t *out)
{
    struct kmd_card *card = locked_card(machine, index);
    if (!card)
        return -EINVAL;
    *out = card->userptr_pages;
    return unlock(card);
}

int sp_emu_last_fault(struct sp_emu_machine *machine, uint32_t index, struct sp_emu_fault_report *out)
{
    struct kmd_card *card = locked_card(machine, index);
    if (!card)
        return -EINVAL;
    *out = card->fault;
    return unlock(card);
}
