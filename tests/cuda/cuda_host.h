/* CUDA C for a C++ compiler: the threads of a group are fibers of one thread, which run one after another, in an order
 * made up anew after each barrier, and change at barriers alone. Not a test; cudahost.py includes a .cu behind it.
 *
 * Stricter than a GPU: shared memory is poisoned before each group, a barrier that not all threads of a group reach is an
 * error, an access beyond what Python has mapped is caught and named. What it does not model is a warp. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include <utility>

#define __global__
#define __device__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __shared__ static __attribute__((section("cuda_shared")))

struct host_index {
    uint32_t x, y, z;
};
static host_index threadIdx, blockIdx, blockDim, gridDim;

/* Both ends of the section of shared memory; the linker makes them when there is one. */
extern "C" __attribute__((weak)) char __start_cuda_shared[], __stop_cuda_shared[];

enum { HOST_THREADS = 1024, HOST_STACK = 64 << 10 };
enum host_state { HOST_READY, HOST_AT_BARRIER, HOST_ENDED };

struct host_fiber {
    ucontext_t context;
    host_index index;
    host_state state;
};
static host_fiber host_fibers[HOST_THREADS];
static char *host_stacks;
static ucontext_t host_main;
static uint32_t host_running;
static void (*host_kernel)(void **);
static void **host_args;
static sigjmp_buf host_escape;
static uintptr_t host_fault;

static void host_leave(host_state state)
{
    host_fiber *me = &host_fibers[host_running];
    me->state = state;
    swapcontext(&me->context, &host_main);
}

static inline void __syncthreads(void) { host_leave(HOST_AT_BARRIER); }

static void host_thread(void)
{
    host_kernel(host_args);
    host_leave(HOST_ENDED);
}

static uint32_t host_random(uint32_t *state) /* xorshift32 */
{
    *state ^= *state << 13, *state ^= *state >> 17, *state ^= *state << 5;
    return *state;
}

static void host_start(uint32_t threads)
{
    if (__start_cuda_shared) memset(__start_cuda_shared, 0xff, (size_t)(__stop_cuda_shared - __start_cuda_shared));
    for (uint32_t i = 0; i < threads; i++) {
        host_fiber *f = &host_fibers[i];
        getcontext(&f->context);
        f->context.uc_stack.ss_sp = host_stacks + (size_t)i * HOST_STACK;
        f->context.uc_stack.ss_size = HOST_STACK;
        makecontext(&f->context, host_thread, 0);
        f->index = {i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y};
        f->state = HOST_READY;
    }
}

/* One group, to its end. */
static int host_group(uint32_t threads, uint32_t *random)
{
    static uint32_t order[HOST_THREADS];
    uint32_t ended = 0;
    host_start(threads);
    for (uint32_t i = 0; i < threads; i++) order[i] = i;
    while (ended < threads) {
        if (ended) return -EDEADLK; /* some ended, others wait for them */
        for (uint32_t i = threads - 1; i > 0; i--) std::swap(order[i], order[host_random(random) % (i + 1)]);
        for (uint32_t i = 0; i < threads; i++) {
            host_running = order[i];
            threadIdx = host_fibers[order[i]].index;
            swapcontext(&host_main, &host_fibers[order[i]].context);
            ended += host_fibers[order[i]].state == HOST_ENDED;
        }
    }
    return 0;
}

static void host_caught(int, siginfo_t *info, void *)
{
    host_fault = (uintptr_t)info->si_addr;
    siglongjmp(host_escape, 1);
}

static int host_grid(uint32_t threads, uint32_t seed)
{
    const uint64_t groups = (uint64_t)gridDim.x * gridDim.y * gridDim.z;
    for (uint64_t at = 0; at < groups; at++) {
        blockIdx = {(uint32_t)(at % gridDim.x), (uint32_t)(at / gridDim.x % gridDim.y),
                    (uint32_t)(at / gridDim.x / gridDim.y)};
        const int rc = host_group(threads, &seed);
        if (rc) return rc;
    }
    return 0;
}

/* Runs a kernel's launcher (ENTRY) over a grid. `args`: a pointer to each argument, as cuLaunchKernel takes them. Returns
 * 0, -EDEADLK, or -EFAULT with the address in *fault. */
extern "C" int host_launch(void (*kernel)(void **), void **args, const uint32_t grid[3], const uint32_t group[3],
                           uint32_t seed, uint64_t *fault)
{
    const uint32_t threads = group[0] * group[1] * group[2];
    struct sigaction caught = {}, before_segv, before_bus;
    volatile int rc = -EFAULT;
    if (threads == 0 || threads > HOST_THREADS || seed == 0) return -EINVAL;
    if (!host_stacks) host_stacks = (char *)malloc((size_t)HOST_THREADS * HOST_STACK);
    if (!host_stacks) return -ENOMEM;
    host_kernel = kernel, host_args = args;
    gridDim = {grid[0], grid[1], grid[2]}, blockDim = {group[0], group[1], group[2]};
    caught.sa_sigaction = host_caught;
    caught.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &caught, &before_segv);
    sigaction(SIGBUS, &caught, &before_bus);
    if (sigsetjmp(host_escape, 1) == 0) rc = host_grid(threads, seed);
    sigaction(SIGSEGV, &before_segv, NULL);
    sigaction(SIGBUS, &before_bus, NULL);
    *fault = host_fault;
    return rc;
}

template <class... A, size_t... I>
static void host_spread(void (*kernel)(A...), void **args, std::index_sequence<I...>)
{
    (void)args;
    kernel(*(A *)args[I]...);
}
template <class... A> static void host_call(void (*kernel)(A...), void **args)
{
    host_spread(kernel, args, std::index_sequence_for<A...>());
}
#define ENTRY(name) \
    extern "C" void host_##name(void **args) { host_call(name, args); }
