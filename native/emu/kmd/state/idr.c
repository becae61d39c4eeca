/* Handles: small integers from 1. A new object gets the lowest free one, as in the kernel driver.
 * So a stale handle soon names another object. */
#include "state.h"

#include <string.h>

static int grow(struct kmd_idr *idr)
{
    uint32_t capacity = idr->capacity ? idr->capacity * 2 : 8;
    void **slot = realloc(idr->slot, capacity * sizeof(*slot));
    if (!slot)
        return -ENOMEM;
    memset(slot + idr->capacity, 0, (capacity - idr->capacity) * sizeof(*slot));
    idr->slot = slot;
    idr->capacity = capacity;
    return 0;
}

int kmd_idr_add(struct kmd_idr *idr, void *object, uint32_t *id)
{
    uint32_t i = idr->next;
    while (i < idr->capacity && idr->slot[i])
        i++;
    if (i == idr->capacity && grow(idr) < 0)
        return -ENOMEM;
    idr->slot[i] = object;
    idr->next = i + 1;
    *id = i + 1;
    return 0;
}

void *kmd_idr_get(const struct kmd_idr *idr, uint32_t id)
{
    return id >= 1 && id <= idr->capacity ? idr->slot[id - 1] : NULL;
}

void *kmd_idr_remove(struct kmd_idr *idr, uint32_t id)
{
    void *object = kmd_idr_get(idr, id);
    if (object) {
        idr->slot[id - 1] = NULL;
        if (id - 1 < idr->next)
            idr->next = id - 1;
    }
    return object;
}
