/* Transfers data to and from the host, and between devices. */
#include "amdgpu/flight/link.h"
#include "amdgpu/progress/progress.h"
#include "amdgpu/submit/submit.h"

#include <errno.h>
#include <string.h>

/* Locks the queue, and sends the remaining jobs of a submission that is only partly sent. Returns
 * 0, or an error with the queue unlocked. */
static int64_t enter(struct sp_amdgpu_queue *q)
{
    int rc = sp_queue_enter(&q->common, SP_ANY_EPOCH);
    if (rc)
        return rc;
    rc = sp_amdgpu_push(q, SP_PUSH_NS);
    return rc ? sp_queue_leave(&q->common, rc) : 0;
}

/* Returns the newest timeline value, for a copy that the CPU has already made. If the submission of
 * that value failed, takes a new value, because the copy did not fail. */
static int64_t newest(struct sp_amdgpu_queue *q)
{
    uint64_t value = sp_queue_newest(&q->common);
    if (atomic_load(&q->common.ledger.nfaults) && !q->head && sp_ledger_fault(&q->common.ledger, value)) {
        value = sp_queue_take_value(&q->common);
        atomic_store(&q->reached, value);
    }
    return (int64_t)value;
}

/* Copies from the host to the device. The CPU copies if it can access the memory and no submission
 * is in flight. Otherwise a job copies from a staging buffer in GTT. */
int64_t sp_amdgpu_upload(struct sp_amdgpu_queue *q, uint64_t address, const void *data, uint64_t nbytes)
{
    void *host;
    struct sp_amdgpu_memory *staging = NULL;
    int64_t rc = enter(q);
    if (rc)
        return rc;
    if (!sp_amdgpu_find(q->dev, address, nbytes, &host))
        return sp_queue_leave(&q->common, -EFAULT);
    sp_amdgpu_retire(q);
    if (nbytes == 0 || (host && !q->head)) {
        memcpy(nbytes ? host : &host, nbytes ? data : &host, nbytes);
        if (nbytes)
            sp_amdgpu_wrote(q->dev);
        return sp_queue_leave(&q->common, newest(q));
    }
    rc = sp_amdgpu_alloc(q->dev, nbytes, SP_AMDGPU_HOST, &staging);
    void *to;
    if (rc == 0 && (rc = sp_amdgpu_map(staging, &to)) == 0) {
        memcpy(to, data, nbytes);
        sp_amdgpu_wrote(q->dev);
        struct sp_cmd_copy c = {.kind = SP_CMD_COPY, .nbytes = sizeof c, .dst = address, .src = staging->va, .count = nbytes};
        rc = sp_amdgpu_enqueue(q, &c, sizeof c, &(struct sp_transfer){.kept = {staging}});
    }
    if (rc < 0 && rc > -SP_AMDGPU_BEGUN)
        sp_amdgpu_free(staging);
    return sp_queue_leave(&q->common, rc);
}

int64_t sp_amdgpu_download(struct sp_amdgpu_queue *q, uint64_t address, void *data, uint64_t nbytes)
{
    void *host, *unused;
    struct sp_amdgpu_memory *staging = NULL;
    int64_t rc = enter(q);
    if (rc)
        return rc;
    const struct sp_amdgpu_memory *m = sp_amdgpu_find(q->dev, address, nbytes, &host);
    if (!m)
        return sp_queue_leave(&q->common, -EFAULT);
    sp_amdgpu_retire(q);
    /* VRAM is mapped write-combined, also on an APU. ttm maps VRAM cached only if the memory is on
     * the CPU's own fabric, which no supported chip has. CPU reads of such a mapping are slow. So
     * the GPU copies the bytes to a staging buffer first. */
    int slow = m->domain == AMDGPU_GEM_DOMAIN_VRAM;
    const int reached = nbytes == 0 || (host && !q->head);
    if (!reached || (slow && nbytes))
        rc = sp_amdgpu_alloc(q->dev, nbytes, SP_AMDGPU_HOST, &staging);
    /* The CPU copies from memory that it reads fast. If no staging buffer could be allocated, the
     * CPU copies from slow memory, too. */
    if (reached && (!staging || rc == -ENOMEM)) {
        if (nbytes)
            memcpy(data, host, nbytes);
        atomic_fetch_add_explicit(&q->dev->direct_nbytes, nbytes, memory_order_relaxed);
        /* This download submits no job, and only a job would report that a reset has erased VRAM.
         * So ask the kernel driver. */
        rc = m->kind == SP_AMDGPU_DEVICE ? sp_amdgpu_intact(q->dev) : 0;
        return sp_queue_leave(&q->common, rc ? rc : newest(q));
    }
    if (rc == 0 && (rc = sp_amdgpu_map(staging, &unused)) == 0) {
        struct sp_cmd_copy c = {.kind = SP_CMD_COPY, .nbytes = sizeof c, .dst = staging->va, .src = address, .count = nbytes};
        rc = sp_amdgpu_enqueue(q, &c, sizeof c, &(struct sp_transfer){.kept = {staging}, .out = data, .out_nbytes = nbytes});
        if (rc > 0 || rc <= -SP_AMDGPU_BEGUN)
            atomic_fetch_add_explicit(&q->dev->staged_nbytes, nbytes, memory_order_relaxed);
    }
    if (rc < 0 && rc > -SP_AMDGPU_BEGUN)
        sp_amdgpu_free(staging);
    return sp_queue_leave(&q->common, rc);
}

int64_t sp_amdgpu_copy_peer(struct sp_amdgpu_queue *q, uint64_t dst, struct sp_amdgpu_link *link, uint64_t src, uint64_t nbytes)
{
    void *unused;
    /* The record names the first chunk of the link as its source. But each job copies from the
     * chunk that the other device's queue (link->reader) has just filled. */
    struct sp_cmd_copy c = {
        .kind = SP_CMD_COPY, .nbytes = sizeof c, .dst = dst, .src = link->here[0]->va, .count = nbytes};
    if (link->here[0]->dev != q->dev)
        return -EINVAL;
    int64_t rc = enter(q);
    if (rc)
        return rc;
    struct sp_transfer t = {
        .kept = {sp_amdgpu_find(link->reader->dev, src, nbytes, &unused), sp_amdgpu_find(q->dev, dst, nbytes, &unused)},
        .link = link, .from = src};
    if (!t.kept[0] || !t.kept[1])
        return sp_queue_leave(&q->common, -EFAULT);
    for (int i = 0; i < 2; i++)
        sp_amdgpu_hold(t.kept[i]);
    sp_link_ref(link);
    rc = sp_amdgpu_enqueue(q, &c, sizeof c, &t);
    if (rc < 0 && rc > -SP_AMDGPU_BEGUN) {
        for (int i = 0; i < 2; i++)
            sp_amdgpu_free(t.kept[i]);
        sp_amdgpu_link_close(link);
    }
    return sp_queue_leave(&q->common, rc);
}
