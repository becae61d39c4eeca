/* Planned injections. Each struct kmd_plan counts the ioctls or jobs of the kind that it is for,
 * from 1. It acts on those with the numbers `what.at` to `what.at + what.count - 1`. If
 * `what.count` is 0, it acts on all from `what.at` on. */
#include "faults.h"

struct kmd_plan {
    struct kmd_plan *next;
    struct sp_emu_planned what;
    uint64_t seen;
};

int kmd_plan_add(struct kmd_card *card, const struct sp_emu_planned *planned)
{
    struct kmd_plan **link = &card->plans, *plan = calloc(1, sizeof(*plan));
    if (!plan)
        return -ENOMEM;
    plan->what = *planned;
    while (*link)
        link = &(*link)->next;
    *link = plan;
    return 0;
}

void kmd_plan_drop(struct kmd_card *card)
{
    while (card->plans) {
        struct kmd_plan *next = card->plans->next;
        free(card->plans);
        card->plans = next;
    }
}

/* Counts one more ioctl or job of the kind that the planned injection is for. Returns true if the
 * injection acts on this one. */
static bool is_due(struct kmd_plan *plan)
{
    uint64_t n = ++plan->seen;
    return n >= plan->what.at && (plan->what.count == 0 || n - plan->what.at < plan->what.count);
}

static bool is_over(const struct kmd_plan *plan)
{
    return plan->what.count > 0 && plan->seen >= plan->what.at && plan->seen - plan->what.at + 1 >= plan->what.count;
}

static void note(struct kmd_card *card, const struct sp_emu_planned *what)
{
    static const char *const name[SP_EMU_ACTIONS] = {"?", "fail", "reset", "unplug", "hang", "fault", "slow", "corrupt"};
    /* run.c counts a planned corruption in planned_done, once it has really changed a dword. All
     * other actions are counted here. */
    if (what->action != SP_EMU_DO_CORRUPT)
        card->planned_done[what->action]++;
    kmd_trace(card->machine, "planned card=%u %s %llu", card->index, name[what->action], (unsigned long long)what->value);
}

/* Performs those actions that can be planned both for an ioctl and for a job. */
static void perform(struct kmd_card *card, const struct sp_emu_planned *what)
{
    if (what->action == SP_EMU_DO_RESET)
        kmd_reset(card, what->value != 0);
    else if (what->action == SP_EMU_DO_UNPLUG)
        kmd_unplug(card);
}

static void drop_over(struct kmd_plan **link)
{
    struct kmd_plan *plan = *link;
    *link = plan->next;
    free(plan);
}

int kmd_plan_ioctl(struct kmd_card *card, uint32_t nr)
{
    int rc = 0;
    for (struct kmd_plan **link = &card->plans; *link;) {
        struct kmd_plan *plan = *link;
        bool mine = !plan->what.of_jobs && plan->what.nrs[nr / 64 % 4] >> nr % 64 & 1;
        if (mine && is_due(plan)) {
            note(card, &plan->what);
            perform(card, &plan->what);
            if (plan->what.action == SP_EMU_DO_FAIL && rc == 0)
                rc = -(int)plan->what.value;
        }
        if (mine && is_over(plan))
            drop_over(link);
        else
            link = &plan->next;
    }
    return card->unplugged ? -ENODEV : rc;
}

static void to_job(struct kmd_job *job, const struct sp_emu_planned *what)
{
    switch (what->action) {
    case SP_EMU_DO_HANG:
        job->hang = true;
        job->recovery = (uint32_t)what->value;
        break;
    case SP_EMU_DO_FAULT:
        job->bad_read = true;
        job->bad_va = what->value;
        break;
    case SP_EMU_DO_SLOW:
        job->slow = what->value;
        break;
    case SP_EMU_DO_CORRUPT:
        job->corrupt = true;
        job->corrupt_mask = (uint32_t)what->value;
        job->corrupt_seed = what->seed;
        break;
    default:
        break;
    }
}

void kmd_plan_job(struct kmd_card *card, struct kmd_job *job)
{
    for (struct kmd_plan **link = &card->plans; *link;) {
        struct kmd_plan *plan = *link;
        if (plan->what.of_jobs && is_due(plan)) {
            note(card, &plan->what);
            perform(card, &plan->what);
            to_job(job, &plan->what);
        }
        if (plan->what.of_jobs && is_over(plan))
            drop_over(link);
        else
            link = &plan->next;
    }
}

void kmd_plan_corrupt_next(struct kmd_card *card, const struct kmd_job *job)
{
    struct sp_emu_planned again = {SP_EMU_DO_CORRUPT, 1, 1, 1, {0}, job->corrupt_mask, job->corrupt_seed};
    /* If memory is short, the planned corruption is dropped. No other code depends on it. */
    kmd_plan_add(card, &again);
}
