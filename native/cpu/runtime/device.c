/* Opens and closes the cpu device, and detects the machine's instruction sets. */
#include "device.h"

#include "numa.h"

#include <errno.h>
#include <stdlib.h>

/* TOUCH_NBYTES: bytes of new memory that one task touches, so that they lie on the NUMA node of its
 * thread. 2 MiB are a huge page, which lies on one node. */
enum { MAX_THREADS = 1024, TOUCH_NBYTES = 2 << 20, PAGE = 4096 };

uint32_t sp_cpu_isa_mask(void)
{
    uint32_t mask = 1u << SP_ISA_REF;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        mask |= 1u << SP_ISA_AVX2;
    if ((mask & 1u << SP_ISA_AVX2) && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw"))
        mask |= 1u << SP_ISA_AVX512;
#elif defined(__aarch64__)
    mask |= 1u << SP_ISA_NEON; /* a part of the base architecture */
#endif
    return mask;
}

int sp_cpu_open(uint32_t isa, uint32_t threads, struct sp_cpu **out)
{
    if (isa > SP_ISA_AVX512 || !(sp_cpu_isa_mask() & 1u << isa))
        return -ENOTSUP;
    if (threads == 0 || threads > MAX_THREADS)
        return -EINVAL;
    struct sp_cpu *dev = calloc(1, sizeof *dev);
    if (!dev)
        return -ENOMEM;
    int rc = sp_pool_init(&dev->pool, threads);
    if (rc) {
        free(dev);
        return rc;
    }
    dev->isa = isa;
    atomic_store(&dev->refs, 1);
    dev->common.fork_generation = sp_fork_generation();
    atomic_fetch_add(&sp_live()->devices, 1);
    *out = dev;
    return 0;
}

int sp_cpu_place(struct sp_cpu *dev, uint32_t nodes, const uint32_t *node_of_thread, uint32_t ncpus,
                 const uint32_t *node_of_cpu)
{
    int rc;
    struct sp_places *places = sp_places_make(nodes, dev->pool.threads, node_of_thread, ncpus, node_of_cpu, &rc);
    if (places && (rc = sp_pool_place(&dev->pool, places)))
        sp_places_free(places);
    return rc;
}

int sp_cpu_confine(struct sp_cpu *dev)
{
    if (!dev->pool.places)
        return -EINVAL;
    dev->confined = 1;
    return 0;
}

int sp_cpu_unpinned(const struct sp_cpu *dev)
{
    return dev->pool.places ? atomic_load(&dev->pool.places->refused) : 0;
}

struct touch {
    char *p;
    uint64_t nbytes;
};

static void touch_task(void *ctx, uint32_t index)
{
    const struct touch *const t = ctx;
    const uint64_t begin = (uint64_t)index * TOUCH_NBYTES;
    const uint64_t end = begin + TOUCH_NBYTES < t->nbytes ? begin + TOUCH_NBYTES : t->nbytes;
    for (uint64_t i = begin; i < end; i += PAGE)
        /* writes the 0 that the page has already; a read would not allocate a page on this node */
        *(volatile char *)(t->p + i) = 0;
}

void sp_cpu_first_touch(struct sp_cpu *dev, void *p, uint64_t nbytes)
{
    struct touch touch = {p, nbytes};
    const uint64_t tasks = (nbytes + TOUCH_NBYTES - 1) / TOUCH_NBYTES;
    if (p && dev->pool.places && tasks > 1 && tasks <= UINT32_MAX)
        sp_pool_run(&dev->pool, touch_task, &touch, (uint32_t)tasks, 0);
}

void sp_cpu_unref(struct sp_cpu *dev)
{
    if (atomic_fetch_sub(&dev->refs, 1) != 1)
        return;
    sp_pool_stop(&dev->pool);
    free(dev);
    atomic_fetch_sub(&sp_live()->devices, 1);
}

void sp_cpu_close(struct sp_cpu *dev)
{
    if (dev && sp_device_usable(&dev->common))
        sp_cpu_unref(dev);
}

uint32_t sp_cpu_threads(const struct sp_cpu *dev)
{
    return dev->pool.threads;
}

uint32_t sp_cpu_isa(const struct sp_cpu *dev)
{
    return dev->isa;
}
