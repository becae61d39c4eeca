/* Finds jobs that have no order between them. A job comes after another one if it waits for that
 * job's fence, directly or through others, or was submitted after that job's end. Unordered jobs of
 * different queues must not touch the same memory. Each job has an account of its accesses
 * (emu/order). The account is kept until no job is left that could conflict. */
#include "order.h"

#include <stdio.h>

enum { ACCOUNTS = 64 };
enum state { QUEUED, BEGUN, ENDED };

struct account {
    struct sp_log log;
    enum state state;
    /* id of the job's queue, unique among all contexts; 0: this struct belongs to no job */
    uint64_t queue;
    uint64_t before; /* a bit for each struct account whose job precedes this job */
    /* kmd_accounts.pushes (submissions to the machine so far): `pushed` is its value at the job's
     * submission, `ended` its value at the job's end */
    uint64_t pushed, ended;
    int blind;              /* 1: the job has begun, and its accesses are not logged */
    /* checks the accesses of the thread that runs the job; NULL: no thread runs it */
    struct sp_watch *watch;
};

struct kmd_accounts {
    struct account at[ACCOUNTS];
    uint64_t pushes;
};

static struct account *account_of(const struct kmd_job *job)
{
    return job->account ? &job->machine->accounts->at[job->account - 1] : NULL;
}

static uint64_t bit_of(const struct kmd_job *job)
{
    return job->account ? UINT64_C(1) << (job->account - 1) : 0;
}

/* Frees the accounts (struct account) of those ended jobs with which no unfinished job could
 * conflict. */
static void tidy(struct kmd_accounts *all)
{
    uint64_t oldest = UINT64_MAX;
    for (uint32_t i = 0; i < ACCOUNTS; i++)
        if (all->at[i].queue && all->at[i].state != ENDED && all->at[i].pushed < oldest)
            oldest = all->at[i].pushed;
    for (uint32_t i = 0; i < ACCOUNTS; i++) {
        struct account *a = &all->at[i];
        if (!a->queue || a->state != ENDED || a->ended >= oldest)
            continue;
        sp_log_clear(&a->log);
        a->queue = 0;
    }
}

/* `jobs` is a mask of indices of all->at: bit i stands for the job of account i. It was made when
 * all->pushes was `pushed`. Returns the mask without those accounts that have been freed or given
 * to another job since. */
static uint64_t without_reused(const struct kmd_accounts *all, uint64_t jobs, uint64_t pushed)
{
    for (uint32_t i = 0; i < ACCOUNTS; i++)
        if (!all->at[i].queue || all->at[i].pushed > pushed)
            jobs &= ~(UINT64_C(1) << i);
    return jobs;
}

void kmd_order_push(struct kmd_job *job)
{
    struct kmd_machine *machine = job->machine;
    const struct kmd_entity *entity = job->entity;
    if (machine->options.lenient & SP_LENIENT_ORDER || !entity->ctx->card->l2)
        return;
    if (!machine->accounts && !(machine->accounts = calloc(1, sizeof(*machine->accounts))))
        return;
    struct kmd_accounts *all = machine->accounts;
    all->pushes++;
    tidy(all);
    for (uint32_t i = 0; i < ACCOUNTS && !job->account; i++)
        job->account = all->at[i].queue ? 0 : i + 1;
    if (!job->account) /* all accounts are in use: the accesses of this job are not checked */
        return;
    struct account *a = account_of(job);
    static const char *const names[] = {"gfx", "compute", "sdma"};
    a->state = QUEUED;
    a->blind = 0;
    a->ended = 0;
    a->queue = entity->ctx->serial << 16 | entity->ip << 8 | entity->index;
    a->before = job->wait && !job->wait->signalled ? job->wait->jobs : 0;
    /* `queue` is a mask of the earlier jobs of this job's queue. The fence's mask gets these bits:
     * whoever waits for the fence also waits for the earlier jobs. a->before does not get them:
     * this job may begin before the earlier jobs end. But a->before gets the jobs for which the
     * previous job of the queue waited: they ended before the previous job began. */
    uint64_t queue = 0;
    const struct account *last = entity->last ? account_of(entity->last) : NULL;
    if (last) {
        queue = without_reused(all, entity->last->fence->jobs, last->pushed);
        a->before |= without_reused(all, last->before, last->pushed);
    }
    a->pushed = a->log.number = all->pushes;
    a->log.ended_by = SP_ENDS_JOB;
    snprintf(a->log.name, sizeof(a->log.name), "job %llu of context %llu, %s %u", (unsigned long long)entity->next_seq,
             (unsigned long long)entity->ctx->serial, names[entity->ip], entity->index);
    job->fence->jobs = a->before | bit_of(job) | queue;
}

/* Returns true if the jobs of the accounts `mine` and `other` may run at the same time, and the
 * accesses of `other` are logged. */
static int may_meet(const struct account *mine, const struct account *other, const struct kmd_accounts *all)
{
    return other->queue && other->queue != mine->queue && !other->blind && !(mine->before >> (other - all->at) & 1) &&
           !(other->before >> (mine - all->at) & 1) && !(other->state == ENDED && other->ended < mine->pushed);
}

/* Returns true if the job may begin while packets of the last job of its ring are still under way.
 * The kernel driver makes the job wait for the end of these packets if the job depends on a job of
 * the same ring. It also makes the job wait when it flushes TLBs. New mappings need no such flush
 * (amdgpu_vm_bo_update: flush_tlb = clear). This emulator ignores waits for a TLB flush. */
static int goes_on(const struct kmd_ring *ring, const struct kmd_job *job)
{
    const struct account *mine = account_of(job), *all = job->machine->accounts->at;
    uint32_t last = ring->last_account - 1;
    return ring->last_account && all[last].queue == mine->queue && all[last].ended >= mine->pushed &&
           !(mine->before >> last & 1);
}

int kmd_order_begin(const struct kmd_ring *ring, const struct kmd_job *job, struct sp_watch *watch)
{
    struct account *mine = account_of(job);
    struct kmd_accounts *all = job->machine->accounts;
    uint32_t others = 0;
    sp_watch_begin(watch, NULL);
    if (!mine)
        return 0;
    for (uint32_t i = 0; i < ACCOUNTS; i++)
        if (may_meet(mine, &all->at[i], all)) {
            sp_watch_add(watch, &all->at[i].log);
            others++;
        }
    mine->state = BEGUN;
    mine->blind = !others && !job->machine->options.delay_ns;
    if (!mine->blind) {
        mine->watch = watch;
        sp_watch_begin(watch, &mine->log);
    }
    for (uint32_t i = 0; i < ACCOUNTS && !mine->blind; i++)
        if (may_meet(mine, &all->at[i], all) && all->at[i].watch)
            sp_watch_add(all->at[i].watch, &mine->log);
    return goes_on(ring, job);
}

int kmd_order_executed(struct kmd_ring *ring, const struct kmd_job *job, struct sp_watch *watch)
{
    struct account *mine = account_of(job);
    sp_watch_begin(watch, NULL);
    ring->last_account = job->account;
    if (mine)
        mine->watch = NULL;
    return watch->found[0] != 0;
}

void kmd_order_end(struct kmd_job *job)
{
    struct account *mine = account_of(job);
    if (!mine)
        return;
    job->account = 0; /* this struct account may soon belong to another job */
    mine->state = ENDED;
    mine->ended = job->machine->accounts->pushes;
    tidy(job->machine->accounts);
}

void kmd_order_free(struct kmd_machine *machine)
{
    for (uint32_t i = 0; machine->accounts && i < ACCOUNTS; i++)
        sp_log_clear(&machine->accounts->at[i].log);
    free(machine->accounts);
}
