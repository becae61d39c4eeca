/* Handles failures of a queue's work: keeps the error texts, and ends all work of a lost device. */
#include "failure.h"
#include "cuda/device/lost.h"
#include "cuda/memory/kernel.h"
#include "flight.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Ends everything in flight with an error, because the device is lost. */
void sp_cuda_fail_all(struct sp_cuda_queue *q)
{
    if (atomic_load(&q->good) == UINT64_MAX)
        atomic_store(&q->good, atomic_load(&q->reached));
    sp_cuda_not_open(q);
    while (q->head) {
        struct sp_cuda_flight *f = q->head;
        q->head = f->next;
        /* keeps the flight's page-locked memory, because the driver may still write there */
        sp_cuda_flight_abandon(q, f);
    }
    q->tail = NULL;
    atomic_store(&q->reached, sp_queue_newest(&q->q));
}

static size_t add_names(const void *records, size_t nbytes, char *out, size_t used, size_t capacity)
{
    const unsigned char *p = records;
    for (size_t at = 0; at + sizeof(struct sp_cmd) <= nbytes;) {
        const struct sp_cmd *head = (const void *)(p + at);
        if (head->kind == SP_CMD_DISPATCH) {
            const struct sp_cuda_kernel *k =
                (const void *)(uintptr_t)((const struct sp_cmd_dispatch *)(const void *)head)->kernel;
            if (!strstr(out, k->name) && used + strlen(k->name) + 3 < capacity)
                used += (size_t)snprintf(out + used, capacity - used, "%s%s", used ? ", " : "", k->name);
        }
        at += head->nbytes;
    }
    return used;
}

/* Writes to `out` the names of the kernels that have not ended, oldest first. One of these kernels
 * failed. */
static void suspects(struct sp_cuda_queue *q, char *out, size_t capacity)
{
    size_t used = 0;
    uint64_t reached = atomic_load(&q->reached), submitted = sp_queue_newest(&q->q);
    const struct sp_cuda_flight *f = q->head;
    out[0] = '\0';
    if (submitted - reached > SP_CUDA_RECENT)
        reached = submitted - SP_CUDA_RECENT;
    for (uint64_t value = reached + 1; value <= submitted; value++) {
        const struct sp_cuda_recent *r = &q->recent[value % SP_CUDA_RECENT];
        if (r->value == value && r->nbytes <= sizeof r->record)
            used = add_names(r->record, r->nbytes, out, used, capacity);
        else if (r->value == value)
            used = add_names(r->record, sizeof(struct sp_cmd_dispatch), out, used, capacity);
        while (f && f->value < value)
            f = f->next;
        if (f && f->value == value)
            used = add_names(f->records, f->nbytes, out, used, capacity);
    }
}

int sp_cuda_failed(struct sp_cuda_queue *q, const char *call, int result)
{
    char said[300] = "", names[200] = "", all[600];
    if (__builtin_expect(result == CU_OK, 1))
        return 0;
    int rc = sp_cu_rc(call, result);
    if (!sp_cu_is_sticky(result))
        return rc;
    if (result == CU_CONTEXT_IS_DESTROYED)
        sp_cuda_reset_by_others(q->dev);
    sp_cuda_why(said, sizeof said - 1);
    suspects(q, names, sizeof names);
    snprintf(all, sizeof all, "%s%s%s: close the device and open it again", said, names[0] ? ", while this ran: " : "", names);
    sp_cuda_lose(q->dev, all);
    sp_cuda_fail_all(q);
    return -ENODEV;
}

void sp_cuda_keep_words(struct sp_cuda_queue *q, uint64_t value)
{
    struct sp_cuda_fault *kept = &q->faults[q->nfaults++ % SP_CUDA_FAULTS];
    kept->value = value;
    kept->words[sp_cuda_why(kept->words, sizeof kept->words - 1)] = '\0';
}

/* Returns the error text of the newest failed submission whose timeline value is at most `value`,
 * or NULL. Earlier submissions count too, because their failure may have caused that of `value`. */
static const struct sp_cuda_fault *words_of(const struct sp_cuda_queue *q, uint64_t value)
{
    const struct sp_cuda_fault *found = NULL;
    for (uint32_t i = 0; i < SP_CUDA_FAULTS; i++) {
        const struct sp_cuda_fault *kept = &q->faults[i];
        if (kept->value && kept->value <= value && (!found || kept->value >= found->value))
            found = kept;
    }
    return found;
}

size_t sp_cuda_fault(struct sp_cuda_queue *q, uint64_t value, char *out, size_t capacity)
{
    size_t nbytes = 0;
    if (!sp_queue_usable(&q->q))
        return 0;
    pthread_mutex_lock(q->q.lock);
    const struct sp_cuda_fault *kept = words_of(q, value);
    if (kept) {
        nbytes = strlen(kept->words) < capacity ? strlen(kept->words) : capacity;
        memcpy(out, kept->words, nbytes);
    }
    pthread_mutex_unlock(q->q.lock);
    return nbytes;
}
