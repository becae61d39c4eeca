/* Transfers to and from the host, and copies between devices. */
#include "amdgpu/flight/link.h"
#include "amdgpu/progress/progress.h"
#include "amdgpu/submit/submit.h"

#include <errno.h>
#include <string.h>

/* Enters the queue once every submission ahead is fully sent and in the list of those in flight. */
static int64_t enter(struct sp_amdgpu_queue *q)
{
    int rc = sp_queue_enter(&q->common, SP_ANY_EPOCH);
    if (rc)
        return rc;
    rc = sp_amdgpu_push(q, SP_PUSH_NS);
    return rc ? sp_queue_leave(&q->common, rc) : 0;
}

/* The newest value, for a copy that the CPU made at once. A new value if the newest submission
 * failed: this copy did not. */
static int64_t newest(struct sp_amdgpu_queue *q)
{
    uint64_t value = sp_queue_newest(&q->common);
    if (atomic_load(&q->common.ledger.nfaults) && !q->head && sp_ledger_fault(&q->common.ledger, value)) {
        value = sp_queue_take_value(&q->common);
        atomic_store(&q->reached, value);
    }
    return (int64_t)value;
}

/* The CPU copies if it reaches the memory and no submission is ahead; else a job copies through
 * GTT. */
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
    /* Mappings of VRAM are write-combined, also on an APU. ttm caches them only if the CPU has the
     * memory on its own fabric, which no supported chip has. Reads are so slow that the GPU copies
     * the bytes first. */
    int slow = m->domain == AMDGPU_GEM_DOMAIN_VRAM;
    const int reached = nbytes == 0 || (host && !q->head);
    if (!reached || (slow && nbytes))
        rc = sp_amdgpu_alloc(q->dev, nbytes, SP_AMDGPU_HOST, &staging);
    if (reached && (!staging || rc == -ENOMEM)) { /* a slow copy is better than none */
        if (nbytes)
            memcpy(data, host, nbytes);
        atomic_fetch_add_explicit(&q->dev->direct_nbytes, nbytes, memory_order_relaxed);
        /* no job runs that would report a loss */
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
    /* describes the copy in flight as one out of the link's memory */
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
