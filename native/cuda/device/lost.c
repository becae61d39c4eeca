/* Marks a device as lost, and keeps the reason as a text. */
#include "lost.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

void sp_cuda_lose(struct sp_cuda *dev, const char *words)
{
    pthread_mutex_lock(&dev->why_lock);
    if (!atomic_load(&dev->common.lost))
        snprintf(dev->why_lost, sizeof dev->why_lost, "%s", words);
    atomic_store(&dev->common.lost, 1);
    pthread_mutex_unlock(&dev->why_lock);
}

void sp_cuda_reset_by_others(struct sp_cuda *dev)
{
    sp_cuda_lose(dev, "another library in this process has reset the device's context");
    atomic_store(&dev->reset, 1);
}

int sp_cuda_rc(struct sp_cuda *dev, const char *call, int result)
{
    char said[300] = "", all[360];
    int rc = sp_cu_rc(call, result);
    if (!sp_cu_is_sticky(result))
        return rc;
    if (result == CU_CONTEXT_IS_DESTROYED)
        sp_cuda_reset_by_others(dev);
    sp_cuda_why(said, sizeof said - 1);
    snprintf(all, sizeof all, "%s: close the device and open it again", said);
    sp_cuda_lose(dev, all);
    return rc;
}

int sp_cuda_gone(struct sp_cuda *dev)
{
    if (!atomic_load(&dev->common.lost))
        return 0;
    pthread_mutex_lock(&dev->why_lock);
    sp_cu_say("%s", dev->why_lost);
    pthread_mutex_unlock(&dev->why_lock);
    return -ENODEV;
}

size_t sp_cuda_lost(struct sp_cuda *dev, char *out, size_t capacity)
{
    if (!sp_cuda_usable(dev))
        return 0;
    pthread_mutex_lock(&dev->why_lock);
    size_t nbytes = strlen(dev->why_lost) < capacity ? strlen(dev->why_lost) : capacity;
    memcpy(out, dev->why_lost, nbytes);
    pthread_mutex_unlock(&dev->why_lock);
    return nbytes;
}
