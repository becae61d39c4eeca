/* Fences. A fence signals once and for ever, with or without an error. A joined fence signals after
 * several others. */
#include "sync.h"

#include <sys/socket.h>

struct kmd_fence *kmd_fence_new(struct kmd_machine *machine)
{
    struct kmd_fence *fence = calloc(1, sizeof(*fence));
    if (!fence)
        return NULL;
    fence->refs = 1;
    fence->machine = machine;
    machine->live.fences++;
    return fence;
}

struct kmd_fence *kmd_fence_get(struct kmd_fence *fence)
{
    if (fence)
        fence->refs++;
    return fence;
}

void kmd_fence_put(struct kmd_fence *fence)
{
    struct kmd_fence *dead = fence;
    if (!fence || --fence->refs > 0)
        return;
    fence->next = NULL;
    while ((fence = dead)) {
        dead = fence->next;
        /* drops the references to joined fences. `dependents` is not 0 only if `fence` never
         * signalled, so these joined fences will never signal either. */
        for (uint32_t i = 0; i < fence->dependents; i++) {
            struct kmd_fence *joined = fence->dependent[i];
            if (--joined->refs == 0) {
                joined->next = dead;
                dead = joined;
            }
        }
        fence->machine->live.fences--;
        free(fence->dependent);
        free(fence);
    }
}

/* Signals a fence, and then each joined fence (kmd_fence_join) that no longer waits for any other.
 * The function uses a list instead of recursion, because the points of a timeline make long
 * chains of joined fences. The list takes over the reference to a joined fence from the array
 * `dependent`. */
static void settle(struct kmd_fence *fence, int error)
{
    struct kmd_fence *ready = kmd_fence_get(fence);
    fence->error = error;
    fence->next = NULL;
    while ((fence = ready)) {
        struct kmd_fence **dependent = fence->dependent;
        uint32_t count = fence->dependents;
        ready = fence->next;
        fence->signalled = true;
        fence->dependent = NULL;
        fence->dependents = 0;
        for (uint32_t i = 0; i < count; i++) {
            struct kmd_fence *joined = dependent[i];
            joined->error = joined->error ? joined->error : fence->error;
            if (--joined->missing > 0) {
                kmd_fence_put(joined);
            } else {
                joined->next = ready;
                ready = joined;
            }
        }
        free(dependent);
        kmd_fence_put(fence);
    }
}

void kmd_tell_sync_files(struct kmd_machine *machine)
{
    for (struct kmd_token *token = machine->tokens; token; token = token->next)
        if (token->kind == KMD_SYNC_FILE && !token->told && token->fence && token->fence->signalled)
            token->told = send(token->ours, "", 1, MSG_NOSIGNAL) >= 0;
}

void kmd_fence_signal(struct kmd_fence *fence, int error)
{
    struct kmd_machine *machine = fence->machine;
    if (fence->signalled)
        return;
    settle(fence, error);
    kmd_tell_sync_files(machine);
    pthread_cond_broadcast(&machine->changed);
    /* wakes the ring threads of all cards: a job of any card may wait for this fence */
    for (uint32_t i = 0; i < machine->cards; i++)
        pthread_cond_broadcast(&machine->card[i].work);
}

static int depend(struct kmd_fence *on, struct kmd_fence *joined)
{
    uint32_t n = on->dependents;
    /* the array on->dependent grows by doubling, so it is full when `n` is 0 or a power of two */
    if ((n & (n - 1)) == 0) {
        struct kmd_fence **grown = realloc(on->dependent, (n ? 2 * n : 1) * sizeof(*grown));
        if (!grown)
            return -ENOMEM;
        on->dependent = grown;
    }
    on->dependent[on->dependents++] = kmd_fence_get(joined);
    joined->missing++;
    return 0;
}

struct kmd_fence *kmd_fence_join(struct kmd_machine *machine, struct kmd_fence *const *fences, uint32_t count)
{
    struct kmd_fence *joined = kmd_fence_new(machine);
    if (!joined)
        return NULL;
    /* Until the end of the loop, `missing` is 1 larger than the number of fences that `joined`
     * waits for. So `joined` cannot signal before the loop ends. */
    joined->missing = 1;
    for (uint32_t i = 0; i < count; i++) {
        struct kmd_fence *fence = fences[i];
        if (fence && fence->signalled && !joined->error)
            joined->error = fence->error;
        if (fence)
            joined->jobs |= fence->jobs;
        if (fence && !fence->signalled && depend(fence, joined) < 0) {
            /* Out of memory. Some of `fences` already hold references to `joined` and will free it
             * when they signal. `missing` (fences that `joined` waits for) is made 1 too large, so
             * that `joined` never signals. */
            joined->missing++;
            kmd_fence_put(joined);
            return NULL;
        }
    }
    if (--joined->missing == 0)
        settle(joined, joined->error);
    return joined;
}
