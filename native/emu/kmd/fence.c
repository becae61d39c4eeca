/* Fences: signalled once, for ever, with an error or without. A joined fence signals after others. */
#include "kmd.h"

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
    if (!fence || --fence->refs > 0)
        return;
    for (uint32_t i = 0; i < fence->dependents; i++) /* never signalled: neither will they */
        kmd_fence_put(fence->dependent[i]);
    fence->machine->live.fences--;
    free(fence->dependent);
    free(fence);
}

static void settle(struct kmd_fence *fence, int error);

static void one_less(struct kmd_fence *joined, int error)
{
    if (!joined->error)
        joined->error = error;
    if (--joined->missing == 0)
        settle(joined, joined->error);
}

static void settle(struct kmd_fence *fence, int error)
{
    struct kmd_fence **dependent = fence->dependent;
    uint32_t count = fence->dependents;
    fence->signalled = true;
    fence->error = error;
    fence->dependent = NULL;
    fence->dependents = 0;
    for (uint32_t i = 0; i < count; i++) {
        one_less(dependent[i], error);
        kmd_fence_put(dependent[i]);
    }
    free(dependent);
}

void kmd_fence_signal(struct kmd_fence *fence, int error)
{
    struct kmd_machine *machine = fence->machine;
    if (fence->signalled)
        return;
    settle(fence, error);
    kmd_tell_sync_files(machine);
    pthread_cond_broadcast(&machine->changed);
    for (uint32_t i = 0; i < machine->cards; i++) /* jobs that waited for it, on whatever card */
        pthread_cond_broadcast(&machine->card[i].work);
}

static int depend(struct kmd_fence *on, struct kmd_fence *joined)
{
    uint32_t n = on->dependents;
    if ((n & (n - 1)) == 0) { /* a power of two: full */
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
    joined->missing = 1; /* itself, until the end of the loop */
    for (uint32_t i = 0; i < count; i++) {
        struct kmd_fence *fence = fences[i];
        if (fence && fence->signalled && !joined->error)
            joined->error = fence->error;
        if (fence && !fence->signalled && depend(fence, joined) < 0) {
            joined->missing++; /* never signals; whoever it depends on lets go of it */
            kmd_fence_put(joined);
            return NULL;
        }
    }
    one_less(joined, 0);
    return joined;
}
