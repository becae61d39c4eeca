/* GL2. It has no capacity limit of its own: a line stays until it is invalidated, so that a missing
 * invalidation is found. The constants below limit the memory that GL2 takes on the host.
 *
 * An agent may write to a line while another ring's acquire fetches the line again or writes it
 * back. So a store (unit.c) marks its bytes as dirty twice. The mark before the write keeps a fetch
 * from undoing the store. A write-back between that mark and the write clears the mark, so the
 * store sets the mark again after the write. */
#include "l2.h"

#include <pthread.h>
#include <stdlib.h>

enum { BUCKETS = 1 << 16, GRAINS_MOST = 1 << 18, GRAINS_KEPT = 1 << 15 };

struct sp_l2 {
    pthread_mutex_t lock;
    uint32_t epoch, jobs, grains, spares;
    uint32_t generation[SP_CACHES_ABOVE]; /* atomic */
    struct sp_l2_grain *bucket[BUCKETS];
    struct sp_l2_grain *written; /* list of the grains that may have dirty bytes */
    struct sp_l2_grain *spare;
    struct sp_emu_caches counts;
};

struct sp_l2 *sp_l2_new(void)
{
    struct sp_l2 *l2 = calloc(1, sizeof *l2);
    if (l2) pthread_mutex_init(&l2->lock, NULL);
    return l2;
}

static void drop(struct sp_l2 *l2, struct sp_l2_grain **at)
{
    struct sp_l2_grain *grain = *at;
    *at = grain->chain;
    l2->grains--;
    if (l2->spares == GRAINS_KEPT) {
        free(grain);
        return;
    }
    grain->chain = l2->spare;
    l2->spare = grain;
    l2->spares++;
}

void sp_l2_free(struct sp_l2 *l2)
{
    if (!l2) return;
    sp_l2_forget(l2, 0, UINT64_MAX);
    while (l2->spare) {
        struct sp_l2_grain *grain = l2->spare;
        l2->spare = grain->chain;
        free(grain);
    }
    pthread_mutex_destroy(&l2->lock);
    free(l2);
}

static struct sp_l2_grain **place(struct sp_l2 *l2, uint64_t line)
{
    struct sp_l2_grain **at = &l2->bucket[line % BUCKETS];
    while (*at && (*at)->line != line) at = &(*at)->chain;
    return at;
}

/* Fetches the clean bytes of a grain again; dirty bytes stay. The function uses
 * compare-and-exchange, because agents may write to the grain at the same time. */
static void fetch_again(struct sp_l2_grain *grain)
{
    uint32_t *now = (uint32_t *)(void *)grain->now;
    const uint32_t *mem = (const uint32_t *)(void *)grain->mem;
    if (memcmp(now, mem, SP_VM_GRAIN) == 0) return;
    for (uint32_t i = 0; i < SP_VM_GRAIN / 4; i++) {
        uint32_t old = __atomic_load_n(&now[i], __ATOMIC_ACQUIRE), dirty, keep = 0;
        if (old == mem[i]) continue;
        dirty = __atomic_load_n(&grain->dirty[i], __ATOMIC_ACQUIRE);
        for (uint32_t k = 0; k < 4; k++) keep |= dirty >> k & 1 ? 0xFFu << 8 * k : 0;
        __atomic_compare_exchange_n(&now[i], &old, (old & keep) | (mem[i] & ~keep), 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
    }
}

static struct sp_l2_grain *enter(struct sp_l2 *l2, struct sp_l2_grain **at, uint64_t line, uint8_t *mem)
{
    struct sp_l2_grain *grain = l2->spare;
    if (l2->grains == GRAINS_MOST) return NULL;
    if (grain) {
        l2->spare = grain->chain;
        l2->spares--;
    } else if (!(grain = aligned_alloc(64, sizeof *grain))) {
        return NULL;
    }
    memset(grain, 0, offsetof(struct sp_l2_grain, now));
    grain->line = line;
    grain->mem = mem;
    grain->epoch = l2->epoch;
    memcpy(grain->now, mem, SP_VM_GRAIN);
    l2->grains++;
    return *at = grain;
}

struct sp_l2_grain *sp_l2_get(struct sp_l2 *l2, uint64_t line, uint8_t *mem, bool write, uint32_t bus)
{
    pthread_mutex_lock(&l2->lock);
    struct sp_l2_grain **at = place(l2, line), *grain = *at;
    if (!grain || grain->epoch != l2->epoch) {
        l2->counts.fetched += SP_VM_GRAIN;
        l2->counts.fetched_remote += bus == SP_BUS_NOT ? 0 : SP_VM_GRAIN;
        if (bus != SP_BUS_NOT) l2->counts.bus[bus] += SP_VM_GRAIN;
    }
    if (!grain)
        grain = enter(l2, at, line, mem);
    else if (grain->epoch != l2->epoch)
        fetch_again(grain);
    if (grain) {
        grain->epoch = l2->epoch;
        grain->remote = bus != SP_BUS_NOT;
    }
    if (grain && write && !grain->written) {
        grain->written = 1;
        grain->next_written = l2->written;
        l2->written = grain;
    }
    pthread_mutex_unlock(&l2->lock);
    return grain;
}

void sp_l2_bus(struct sp_l2 *l2, uint32_t bus, uint64_t nbytes)
{
    pthread_mutex_lock(&l2->lock);
    l2->counts.bus[bus] += nbytes;
    pthread_mutex_unlock(&l2->lock);
}

struct sp_l2_grain *sp_l2_find(struct sp_l2 *l2, uint64_t line)
{
    pthread_mutex_lock(&l2->lock);
    struct sp_l2_grain *grain = *place(l2, line);
    if (grain && grain->epoch != l2->epoch) fetch_again(grain);
    if (grain) grain->epoch = l2->epoch;
    pthread_mutex_unlock(&l2->lock);
    return grain;
}

void sp_l2_take(struct sp_l2 *l2, uint64_t line, const uint8_t *mem, uint32_t at, uint32_t nbytes)
{
    pthread_mutex_lock(&l2->lock);
    struct sp_l2_grain *grain = *place(l2, line);
    if (grain) memcpy(grain->now + at, mem + at, nbytes);
    for (uint32_t i = at / 4; grain && i < (at + nbytes + 3) / 4; i++)
        __atomic_fetch_and(&grain->dirty[i], (uint8_t)~sp_l2_bytes(at, nbytes, i), __ATOMIC_ACQ_REL);
    pthread_mutex_unlock(&l2->lock);
}

static uint32_t write_back_dword(struct sp_l2_grain *grain, uint32_t i)
{
    uint32_t dirty = __atomic_exchange_n(&grain->dirty[i], 0, __ATOMIC_ACQ_REL), count = 0;
    uint32_t now = __atomic_load_n((uint32_t *)(void *)grain->now + i, __ATOMIC_ACQUIRE);
    if (dirty == 15) {
        __atomic_store_n((uint32_t *)(void *)grain->mem + i, now, __ATOMIC_RELEASE);
        return 4;
    }
    for (uint32_t k = 0; k < 4; k++)
        if (dirty >> k & 1) {
            grain->mem[4 * i + k] = (uint8_t)(now >> 8 * k);
            count++;
        }
    return count;
}

static void write_back(struct sp_l2 *l2)
{
    uint64_t before = l2->counts.written_back;
    for (struct sp_l2_grain *grain = l2->written; grain; grain = grain->next_written) {
        uint64_t so_far = l2->counts.written_back;
        for (uint32_t i = 0; i < sizeof grain->dirty; i += 8) {
            if (__atomic_load_n((uint64_t *)(void *)(grain->dirty + i), __ATOMIC_ACQUIRE) == 0) continue;
            for (uint32_t k = i; k < i + 8; k++) l2->counts.written_back += write_back_dword(grain, k);
        }
        if (grain->remote) l2->counts.bus[SP_BUS_WRITTEN] += l2->counts.written_back - so_far;
    }
    l2->counts.write_backs += l2->counts.written_back != before;
}

void sp_l2_gcr(struct sp_l2 *l2, uint32_t gcr)
{
    static const uint8_t above[SP_CACHES_ABOVE] = {SP_GCR_GLI_INV, SP_GCR_GLK_INV, SP_GCR_GLV_INV, SP_GCR_GL1_INV};
    pthread_mutex_lock(&l2->lock);
    for (uint32_t k = 0; k < SP_CACHES_ABOVE; k++)
        if (gcr & above[k]) {
            __atomic_fetch_add(&l2->generation[k], 1, __ATOMIC_RELEASE);
            l2->counts.invalidations[k]++;
        }
    if (gcr & (SP_GCR_GL2_INV | SP_GCR_GL2_WB)) write_back(l2);
    l2->counts.flushes += (gcr & SP_GCR_GL2_WB) != 0;
    if (gcr & SP_GCR_GL2_INV) {
        l2->epoch++;
        l2->counts.invalidations[SP_CACHES_ABOVE]++;
    }
    pthread_mutex_unlock(&l2->lock);
}

uint32_t sp_l2_generation(const struct sp_l2 *l2, uint32_t kind)
{
    return __atomic_load_n(&l2->generation[kind], __ATOMIC_ACQUIRE);
}

void sp_l2_job_begins(struct sp_l2 *l2)
{
    pthread_mutex_lock(&l2->lock);
    l2->jobs++;
    pthread_mutex_unlock(&l2->lock);
}

static void forget(struct sp_l2 *l2, uint64_t first, uint64_t end)
{
    struct sp_l2_grain **written = &l2->written;
    if (l2->grains == 0) return;
    while (*written)
        if ((*written)->line >= first && (*written)->line < end)
            *written = (*written)->next_written;
        else
            written = &(*written)->next_written;
    for (uint32_t b = 0; b < BUCKETS && end - first > BUCKETS; b++)
        for (struct sp_l2_grain **at = &l2->bucket[b]; *at;)
            if ((*at)->line >= first && (*at)->line < end)
                drop(l2, at);
            else
                at = &(*at)->chain;
    for (uint64_t line = first; line < end && end - first <= BUCKETS; line++)
        if (*place(l2, line)) drop(l2, place(l2, line));
}

/* Ends a job: writes dirty bytes back. If no job is left, it empties the list `written`, and drops
 * all grains if there are more than GRAINS_KEPT. It cannot do so earlier, because the TLBs of
 * running jobs point to grains. */
void sp_l2_job_ends(struct sp_l2 *l2)
{
    pthread_mutex_lock(&l2->lock);
    write_back(l2);
    if (--l2->jobs == 0) {
        for (struct sp_l2_grain *grain = l2->written; grain; grain = grain->next_written) grain->written = 0;
        l2->written = NULL;
        if (l2->grains > GRAINS_KEPT) forget(l2, 0, UINT64_MAX);
    }
    pthread_mutex_unlock(&l2->lock);
}

void sp_l2_forget(struct sp_l2 *l2, uint64_t first, uint64_t end)
{
    pthread_mutex_lock(&l2->lock);
    forget(l2, first, end);
    pthread_mutex_unlock(&l2->lock);
}

void sp_l2_reset(struct sp_l2 *l2, bool vram_lost)
{
    pthread_mutex_lock(&l2->lock);
    for (struct sp_l2_grain *grain = l2->written; grain && vram_lost; grain = grain->next_written)
        memset(grain->dirty, 0, sizeof grain->dirty);
    write_back(l2);
    l2->epoch++;
    for (uint32_t k = 0; k < SP_CACHES_ABOVE; k++) __atomic_fetch_add(&l2->generation[k], 1, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&l2->lock);
}

void sp_l2_counts(struct sp_l2 *l2, struct sp_emu_caches *out)
{
    pthread_mutex_lock(&l2->lock);
    *out = l2->counts;
    pthread_mutex_unlock(&l2->lock);
}
