/* A timeline: a 64-bit number that only grows, and the runtime's only kind of synchronisation
 * object. A wait ends when `reached` is at least the awaited value.
 *
 * Futexes are 32 bits wide, so waiters sleep on a separate word, `sequence`. `reached` itself is
 * only loaded and stored. */
#ifndef SP_CORE_TIMELINE_H
#define SP_CORE_TIMELINE_H
#include "spin.h"

#include <stdatomic.h>
#include <stdint.h>

struct sp_timeline {
    _Atomic uint64_t reached;
    _Atomic uint32_t sequence;
    _Atomic uint32_t waiters;
};

static inline uint64_t sp_timeline_reached(struct sp_timeline *t)
{
    return atomic_load_explicit(&t->reached, memory_order_acquire);
}

void sp_timeline_signal(struct sp_timeline *t, uint64_t value);
/* Waits until the timeline has reached `value`. Spins for `spin_ns`, then sleeps. Returns 0 or
 * -ETIMEDOUT. */
int sp_timeline_wait(struct sp_timeline *t, uint64_t value, uint64_t timeout_ns, uint64_t spin_ns);

/* Futex calls, private to the process. sp_futex_wait returns after a wake-up, a change of the word,
 * a signal, or the timeout. */
void sp_futex_wait(_Atomic uint32_t *word, uint32_t expected, uint64_t timeout_ns);
void sp_futex_wake(_Atomic uint32_t *word, int waiters);
#endif
