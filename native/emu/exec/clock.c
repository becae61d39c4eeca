/* The clock of a card: one counter for packets, waves and INFO TIMESTAMP. And the measure of a job's
 * work. */
#include "exec.h"
#include <time.h>

/* How much faster the card's clock runs than the host's. Real oscillators differ by up to some 50
 * ppm. */
enum { DRIFT_PPM = 40 };

uint64_t sp_emu_gpu_clock(const struct sp_emu_chip *chip)
{
    const uint64_t stopped_at = UINT64_C(0x123456789);
    const struct sp_emu_flaw_of *drift = sp_emu_flaw(chip, SP_FLAW_DRIFT);
    struct timespec t;
    if (sp_emu_flaw(chip, SP_FLAW_CLOCK)) return stopped_at;
    clock_gettime(CLOCK_MONOTONIC, &t);
    const __int128 ppm = drift ? (int64_t)drift->a : DRIFT_PPM, million = 1000000;
    const __int128 now = (__int128)t.tv_sec * 1000000000 + t.tv_nsec;
    return (uint64_t)((now + now * ppm / million + (drift ? (int64_t)drift->b : 0)) * chip->counter_khz / million);
}

uint64_t sp_emu_thread_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

bool sp_emu_worked(struct sp_emu_exec *x, uint64_t *counted_ns)
{
    uint64_t now = sp_emu_thread_ns(), more = now - *counted_ns;
    *counted_ns = now;
    return __atomic_add_fetch(&x->worked_ns, more, __ATOMIC_RELAXED) >= x->limit_ns && x->limit_ns;
}
