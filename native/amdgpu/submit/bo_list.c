/* Makes the list of memory (BO handles) that a submission names to the kernel driver.
 *
 * VM_ALWAYS_VALID memory is never listed. Shared memory is listed by the submissions that touch it,
 * because the kernel driver makes such submissions wait for other users of the memory. Wrapped host
 * memory (a userptr) is also listed only by submissions that touch it. For each submission the
 * kernel driver walks all pages of a listed userptr (amdgpu_cs_parser_bos), which takes some ms per
 * GiB. The ioctl fails if one of these pages is unmapped.
 *
 * A submission touches the source and target of its copies, the target of its fills, and the memory
 * of each 64-bit argument. Each 64-bit argument counts, because a kernel may take an address as a
 * number. The list misses addresses that a kernel loads from memory: see include/sp_amdgpu.h. */
#include "bo_list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

int sp_bo_list_add(struct sp_bo_list *list, uint32_t handle)
{
    for (uint32_t i = 0; i < list->n; i++)
        if (list->at[i].bo_handle == handle)
            return 0;
    if (list->n == list->most) {
        const uint32_t most = list->most ? 2 * list->most : 8;
        void *more = realloc(list->at, most * sizeof *list->at);
        if (!more)
            return -ENOMEM;
        list->at = more;
        list->most = most;
    }
    list->at[list->n++] = (struct drm_amdgpu_bo_list_entry){.bo_handle = handle};
    return 0;
}

/* Adds the memory at `address` to the BO list if submissions that touch this memory must name it
 * there. The caller of touch, touch_arguments and touch_records holds the device's lock. */
static int touch(struct sp_amdgpu *dev, struct sp_bo_list *list, uint64_t address)
{
    const size_t at = sp_memory_above(dev, address);
    const struct sp_amdgpu_memory *m = at ? dev->memories[at - 1] : NULL;
    return m && m->listed == SP_LISTED_TOUCHED && address - m->base < m->nbytes ? sp_bo_list_add(list, m->bo->handle) : 0;
}

static int touch_arguments(struct sp_amdgpu *dev, struct sp_bo_list *list, const struct sp_cmd_dispatch *d)
{
    const struct sp_signature *sig = &((const struct sp_amdgpu_kernel *)(uintptr_t)d->kernel)->sig;
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < sig->nargs; i++) {
        uint64_t address;
        if (sig->args[i].nbytes != sizeof address)
            continue;
        memcpy(&address, (const char *)(d + 1) + sig->args[i].offset, sizeof address);
        rc = touch(dev, list, address);
    }
    return rc;
}

static int touch_records(struct sp_amdgpu *dev, struct sp_bo_list *list, const unsigned char *records, size_t nbytes)
{
    int rc = 0;
    for (size_t at = 0; rc == 0 && at < nbytes;) {
        const struct sp_cmd *head = (const void *)(records + at);
        const struct sp_cmd_copy *copy = (const void *)head;
        if (head->kind == SP_CMD_DISPATCH)
            rc = touch_arguments(dev, list, (const void *)head);
        else if (head->kind == SP_CMD_FILL)
            rc = touch(dev, list, ((const struct sp_cmd_fill *)(const void *)head)->dst);
        else if (head->kind == SP_CMD_COPY && (rc = touch(dev, list, copy->dst)) == 0)
            rc = touch(dev, list, copy->src);
        at += head->nbytes;
    }
    return rc;
}

int sp_bo_list_make(struct sp_amdgpu *dev, struct sp_bo_list *list, const void *records, size_t nbytes)
{
    int rc = 0;
    pthread_mutex_lock(&dev->lock);
    list->n = 0;
    for (size_t i = 0; !dev->always_valid && rc == 0 && i < dev->nmemories; i++)
        rc = dev->memories[i]->listed == SP_LISTED_ALWAYS ? sp_bo_list_add(list, dev->memories[i]->bo->handle) : 0;
    if (rc == 0)
        rc = touch_records(dev, list, records, nbytes);
    list->turn = rc ? 0 : atomic_load(&dev->list_turn);
    pthread_mutex_unlock(&dev->lock);
    return rc;
}

static int names(const struct sp_bo_list *list, const struct sp_amdgpu_memory *m)
{
    for (uint32_t i = 0; i < list->n; i++)
        if (list->at[i].bo_handle == m->bo->handle)
            return 1;
    return 0;
}

void sp_bo_list_say_unmapped(struct sp_amdgpu *dev, const struct sp_bo_list *list)
{
    const struct sp_amdgpu_memory *dead = NULL;
    int gone = 0;
    pthread_mutex_lock(&dev->lock);
    for (size_t i = 0; !gone && i < dev->nmemories; i++) {
        const struct sp_amdgpu_memory *m = dev->memories[i];
        if (!m->host || !names(list, m))
            continue;
        /* msync with MS_ASYNC changes nothing, but fails if a page is unmapped. */
        gone = msync((char *)m->host - (m->va - m->base), m->nbytes, MS_ASYNC) != 0;
        dead = gone || !dead ? m : dead;
    }
    if (dead)
        sp_amdgpu_say("host memory that was wrapped at %p (%llu bytes in whole pages) is unmapped or read-only",
                      dead->host, (unsigned long long)dead->nbytes);
    pthread_mutex_unlock(&dev->lock);
}
