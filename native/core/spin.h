/* Whether and how long a waiting thread spins before it sleeps. */
#ifndef SP_CORE_SPIN_H
#define SP_CORE_SPIN_H
#include <stdint.h>

/* Returns how long a waiting thread may spin before it sleeps: 100 us, or 0 if the machine has more
 * runnable threads than cores (sampled every 20 ms; two samples must agree). Two spinning runtimes
 * in one process were seen to stall each other for 2-6 ms. */
uint64_t sp_spin_ns(void);
/* Returns what sp_spin_ns returns, for a wait on a thread that last ran on core `other`
 * (sp_core_now; -1: unknown). Returns 0 if the caller runs on that core: spinning would keep the
 * other thread from running. */
uint64_t sp_spin_for_ns(int other);
int sp_core_now(void);

/* State of a spin loop: `while (sp_spin_on(&spin))` around checks and sp_cpu_relax. The loop ends
 * after `spin_ns`, or once the thread has lost its core to another thread. In the second case
 * sp_spin_ns returns 0 for the next 20 ms. */
struct sp_spin {
    uint64_t begun, seen, until, displaced;
    /* 1 once sp_spin_on has set `displaced`: how often this thread had lost its core to another
     * thread by then, as counted by the Linux kernel. */
    int asked;
};
struct sp_spin sp_spin_begin(uint64_t spin_ns);
int sp_spin_on(struct sp_spin *spin);
/* Returns the number of cores that this process may use: those of its affinity mask, or fewer if
 * sp_cores_limit was called. */
int sp_cores(void);

static inline void sp_cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}
#endif
