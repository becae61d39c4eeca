/* A machine's lock, clock and random numbers, and the fork guard. */
#include "state.h"

#include <time.h>

static const uint64_t NS = 1000000000;
static uint32_t generation;

static void in_child(void)
{
    generation++;
}

uint32_t kmd_generation(void)
{
    return __atomic_load_n(&generation, __ATOMIC_RELAXED);
}

uint64_t kmd_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS + (uint64_t)now.tv_nsec;
}

uint64_t kmd_deadline(uint64_t timeout)
{
    return (int64_t)timeout < 0 ? KMD_FOREVER : timeout;
}

uint64_t kmd_random_of(uint64_t *state, uint64_t below)
{
    /* splitmix64 (Steele, Lea, Flood, 2014), a generator of random numbers */
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return below ? (z ^ (z >> 31)) % below : 0;
}

uint64_t kmd_random(struct kmd_machine *machine, uint64_t below)
{
    return kmd_random_of(&machine->random, below);
}

void kmd_enter(struct kmd_machine *machine)
{
    __atomic_fetch_add(&machine->inside, 1, __ATOMIC_ACQUIRE);
    pthread_mutex_lock(&machine->lock);
}

void kmd_leave(struct kmd_machine *machine)
{
    pthread_mutex_unlock(&machine->lock);
    __atomic_fetch_sub(&machine->inside, 1, __ATOMIC_RELEASE);
}

int kmd_wait_change(struct kmd_machine *machine, const struct kmd_card *card, uint64_t deadline_ns)
{
    int rc = 0;
    if (machine->closing || (card && card->unplugged))
        return -ENODEV;
    if (deadline_ns == KMD_FOREVER) {
        pthread_cond_wait(&machine->changed, &machine->lock);
    } else {
        struct timespec until = {(time_t)(deadline_ns / NS), (long)(deadline_ns % NS)};
        rc = pthread_cond_timedwait(&machine->changed, &machine->lock, &until);
    }
    if (machine->closing || (card && card->unplugged))
        return -ENODEV;
    return rc == ETIMEDOUT ? -ETIME : 0;
}

static void register_fork_handler(void)
{
    pthread_atfork(NULL, NULL, in_child);
}

void kmd_watch_forks(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, register_fork_handler);
}
