/* Logs the bytes that a packet or job touches, byte by byte. Two unordered accesses to a byte
 * conflict, unless both read it or both are atomics on it. Memory that is mapped UC is not logged,
 * because agents communicate through it by design. */
#include "log.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { WORDS = SP_VM_GRAIN / 64, FIRST_ROOM = 64, MOST_ROOM = 1 << 15 };

struct sp_touched_grain {
    uint64_t line;
    /* a bit for each byte of this block of 1 KiB, for each kind of access */
    uint64_t bits[SP_TOUCHES][WORDS];
};

/* One lock for all logs, because jobs of several rings read each other's logs. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void clear(struct sp_log *log)
{
    for (uint32_t i = 0; i < log->room; i++) free(log->grain[i]);
    free(log->grain);
    log->grain = NULL;
    log->count = log->room = 0;
}

void sp_log_clear(struct sp_log *log)
{
    pthread_mutex_lock(&lock);
    clear(log);
    pthread_mutex_unlock(&lock);
}

static struct sp_touched_grain **place(const struct sp_log *log, uint64_t line)
{
    uint64_t i = line * UINT64_C(0x9E3779B97F4A7C15) >> 32;
    for (;; i++) {
        struct sp_touched_grain **at = &log->grain[i & (log->room - 1)];
        if (!*at || (*at)->line == line) return at;
    }
}

static const struct sp_touched_grain *find(const struct sp_log *log, uint64_t line)
{
    return log->room ? *place(log, line) : NULL;
}

static void grow(struct sp_log *log)
{
    struct sp_log more = *log;
    more.room = log->room ? 2 * log->room : FIRST_ROOM;
    more.grain = more.room > MOST_ROOM ? NULL : calloc(more.room, sizeof(*more.grain));
    if (!more.grain) return;
    for (uint32_t i = 0; i < log->room; i++)
        if (log->grain[i]) *place(&more, log->grain[i]->line) = log->grain[i];
    free(log->grain);
    *log = more;
}

/* Returns the log's entry for the block of 1 KiB with the number `line`; makes the entry if there
 * is none. NULL: the log is full, so accesses to this block are not logged. */
static struct sp_touched_grain *enter(struct sp_log *log, uint64_t line)
{
    if (2 * log->count >= log->room) grow(log);
    if (log->count + 1 >= log->room) return NULL;
    struct sp_touched_grain **at = place(log, line);
    if (!*at && (*at = calloc(1, sizeof **at))) {
        (*at)->line = line;
        log->count++;
    }
    return *at;
}

static uint64_t word_of(uint32_t at, uint32_t end, uint32_t word)
{
    uint32_t first = at > 64 * word ? at - 64 * word : 0, last = end - 64 * word;
    return (last < 64 ? (UINT64_C(1) << last) - 1 : UINT64_MAX) & UINT64_MAX << first;
}

/* Returns the first byte where `touch` conflicts with `other`'s accesses, or -1. `*was` receives
 * the kind of the other access. */
static int meeting(const struct sp_touched_grain *other, uint32_t at, uint32_t end, enum sp_touch touch, enum sp_touch *was)
{
    static const uint8_t against[SP_TOUCHES] = {
        [SP_READS] = 1 << SP_WRITES | 1 << SP_ATOMIC,
        [SP_WRITES] = 1 << SP_READS | 1 << SP_WRITES | 1 << SP_ATOMIC,
        [SP_ATOMIC] = 1 << SP_READS | 1 << SP_WRITES,
    };
    for (uint32_t word = at / 64; word < (end + 63) / 64; word++)
        for (int k = SP_TOUCHES - 1; k >= 0; k--) {
            uint64_t both = against[touch] >> k & 1 ? other->bits[k][word] & word_of(at, end, word) : 0;
            *was = (enum sp_touch)k;
            if (both) return (int)(64 * word) + __builtin_ctzll(both);
        }
    return -1;
}

static void tell(struct sp_watch *watch, const struct sp_log *mine, enum sp_touch touch, uint64_t va,
                 const struct sp_log *other, enum sp_touch was)
{
    static const char *const does[SP_TOUCHES] = {"reads", "writes", "changes by an atomic"};
    static const char *const lacks[] = {
        [SP_ENDS_WAVES] = "CS_PARTIAL_FLUSH, or RELEASE_MEM and WAIT_REG_MEM, between them",
        [SP_ENDS_DMA] = "CP_SYNC in the first, or DMA_DATA with it between them",
        [SP_ENDS_WRITE] = "WR_CONFIRM in the first",
        [SP_ENDS_RELEASE] = "WAIT_REG_MEM between them",
        [SP_ENDS_JOB] = "the second job to wait for the first",
        [SP_ENDS_HERE] = "the first to wait",
    };
    watch->va = va;
    snprintf(watch->found, sizeof watch->found, "%s %s 0x%llx, which %s %s; nothing orders the two: expected %s", mine->name,
             does[touch], (unsigned long long)va, other->name, does[was],
             lacks[mine->number < other->number ? mine->ended_by : other->ended_by]);
}

void sp_order_note(struct sp_watch *watch, uint64_t line, uint64_t va, size_t nbytes, enum sp_touch touch)
{
    uint32_t at = va % SP_VM_GRAIN, end = at + (uint32_t)nbytes;
    pthread_mutex_lock(&lock);
    for (unsigned r = 0; r < SP_WATCHES; r++) {
        struct sp_log *mine = watch->row[r].mine;
        struct sp_touched_grain *grain = mine ? enter(mine, line) : NULL;
        for (uint32_t word = at / 64; grain && word < (end + 63) / 64; word++)
            grain->bits[touch][word] |= word_of(at, end, word);
        for (uint32_t i = 0; mine && i < watch->row[r].others && !watch->found[0]; i++) {
            const struct sp_touched_grain *theirs = find(watch->row[r].other[i], line);
            enum sp_touch was;
            int byte = theirs ? meeting(theirs, at, end, touch, &was) : -1;
            if (byte >= 0) tell(watch, mine, touch, va - at + (uint32_t)byte, watch->row[r].other[i], was);
            if (theirs && r == SP_WATCH_JOBS && touch == SP_ATOMIC && theirs->bits[SP_ATOMIC][at / 64] & word_of(at, end, at / 64))
                watch->row[r].other[i--] = watch->row[r].other[--watch->row[r].others];
        }
    }
    pthread_mutex_unlock(&lock);
}

void sp_watch_begin(struct sp_watch *watch, struct sp_log *job)
{
    pthread_mutex_lock(&lock);
    watch->row[SP_WATCH_JOBS].mine = job;
    if (!job) watch->row[SP_WATCH_JOBS].others = 0;
    pthread_mutex_unlock(&lock);
}

void sp_watch_add(struct sp_watch *watch, struct sp_log *job)
{
    pthread_mutex_lock(&lock);
    uint32_t *others = &watch->row[SP_WATCH_JOBS].others, there = 0;
    for (uint32_t i = 0; i < *others; i++) there |= watch->row[SP_WATCH_JOBS].other[i] == job;
    if (!there && *others < SP_WATCH_OTHERS) watch->row[SP_WATCH_JOBS].other[(*others)++] = job;
    pthread_mutex_unlock(&lock);
}

int sp_watch_fault(struct sp_watch *watch, struct sp_emu_fault *fault)
{
    if (fault->kind == SP_FAULT_NONE) fault->va = watch->va;
    sp_emu_fault_set(fault, SP_FAULT_ORDER, -EFAULT, "%s", watch->found);
    watch->found[0] = 0;
    return -EFAULT;
}

void sp_watch_wait_met(struct sp_watch *watch)
{
    pthread_mutex_lock(&lock);
    watch->row[SP_WATCH_JOBS].others = 0;
    pthread_mutex_unlock(&lock);
}

void sp_watch_signalled(struct sp_watch *watch)
{
    pthread_mutex_lock(&lock);
    if (watch->row[SP_WATCH_JOBS].mine) clear(watch->row[SP_WATCH_JOBS].mine);
    pthread_mutex_unlock(&lock);
}
