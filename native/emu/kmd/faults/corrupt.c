/* The injection that makes a job's result wrong. It copies the memory that the job may write before
 * the job runs, finds the changed dwords after its end, and xors one of them with a mask. */
#include "faults.h"

#include <string.h>

enum { MOST_NBYTES = 64 << 20 };

struct range {
    const struct kmd_bo *bo;
    /* in bytes: `offset` and `nbytes` give the range in the BO; `at` is where kmd_before.copy has
     * its bytes */
    uint64_t offset, nbytes, at;
};

struct kmd_before {
    uint32_t count;
    struct range *range;
    uint8_t *copy;
};

static bool may_write(const struct kmd_job *job, const struct kmd_mapping *m)
{
    bool listed = false;
    if (!m->bo || !(m->rights & SP_VM_WRITE) || m->bo == job->fence_bo)
        return false;
    for (uint32_t i = 0; i < job->view.listed_count && !listed; i++)
        listed = job->view.listed[i] == m->bo;
    return m->bo->private_to || listed;
}

static void add(struct kmd_before *before, const struct kmd_mapping *m, uint64_t *total)
{
    struct range r = {m->bo, m->offset, (m->end - m->first) * KMD_PAGE, *total};
    /* all copied ranges together have at most MOST_NBYTES, so the rest of a longer range is not
     * copied */
    if (r.nbytes > MOST_NBYTES - *total)
        r.nbytes = MOST_NBYTES - *total;
    before->range[before->count++] = r;
    *total += r.nbytes;
}

static void drop(struct kmd_before *before)
{
    if (before) {
        free(before->range);
        free(before->copy);
    }
    free(before);
}

struct kmd_before *kmd_before_job(const struct kmd_job *job)
{
    const struct sp_emu_vm *vm = job->view.vm;
    struct kmd_before *before = calloc(1, sizeof(*before));
    uint64_t total = 0;
    if (before)
        before->range = calloc(vm->count ? vm->count : 1, sizeof(*before->range));
    for (uint32_t i = 0; before && before->range && i < vm->count; i++)
        if (may_write(job, &vm->map[i]))
            add(before, &vm->map[i], &total);
    if (before && before->range)
        before->copy = malloc(total ? total : 1);
    if (!before || !before->copy) {
        drop(before);
        return NULL;
    }
    for (uint32_t i = 0; i < before->count; i++)
        memcpy(before->copy + before->range[i].at, before->range[i].bo->host + before->range[i].offset,
               before->range[i].nbytes);
    return before;
}

/* Returns the address of the changed dword with index `*index`, counted from 0. If no changed dword
 * has this index, returns NULL and subtracts the number of changed dwords from `*index`. */
static uint32_t *changed(const struct kmd_before *before, uint64_t *index)
{
    for (uint32_t i = 0; i < before->count; i++) {
        const struct range *r = &before->range[i];
        uint8_t *now = r->bo->host + r->offset;
        const uint8_t *then = before->copy + r->at;
        for (uint64_t at = 0; at < r->nbytes; at += 4)
            if (memcmp(now + at, then + at, 4) != 0 && (*index)-- == 0)
                return (uint32_t *)(void *)(now + at);
    }
    return NULL;
}

bool kmd_corrupt(struct kmd_before *before, uint32_t mask, uint64_t seed)
{
    uint64_t none = UINT64_MAX, left = none;
    uint32_t *at = NULL;
    if (!before)
        return false;
    /* No dword has index UINT64_MAX, so this call finds none. It subtracts the number of changed
     * dwords from `left`. */
    changed(before, &left);
    if (left != none) {
        uint64_t index = kmd_random_of(&seed, none - left);
        at = changed(before, &index);
    }
    if (at)
        *at ^= mask;
    drop(before);
    return at != NULL;
}
