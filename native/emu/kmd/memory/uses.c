/* Lists of the unfinished jobs that use a BO or an address space. */
#include "memory.h"
#include "emu/kmd/sync/sync.h"

void kmd_uses_prune(struct kmd_uses *uses)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < uses->count; i++) {
        if (uses->at[i].fence->signalled)
            kmd_fence_put(uses->at[i].fence);
        else
            uses->at[kept++] = uses->at[i];
    }
    uses->count = kept;
}

int kmd_uses_add(struct kmd_uses *uses, struct kmd_fence *fence, uint64_t owner)
{
    if (uses->count == uses->capacity)
        kmd_uses_prune(uses);
    if (uses->count == uses->capacity) {
        uint32_t capacity = uses->capacity ? 2 * uses->capacity : 4;
        struct kmd_use *grown = realloc(uses->at, capacity * sizeof(*grown));
        if (!grown)
            return -ENOMEM;
        uses->at = grown;
        uses->capacity = capacity;
    }
    uses->at[uses->count++] = (struct kmd_use){kmd_fence_get(fence), owner};
    return 0;
}

void kmd_uses_clear(struct kmd_uses *uses)
{
    for (uint32_t i = 0; i < uses->count; i++)
        kmd_fence_put(uses->at[i].fence);
    free(uses->at);
    *uses = (struct kmd_uses){NULL, 0, 0};
}
