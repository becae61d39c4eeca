/* Threads and memory on NUMA nodes: the lists of threads and CPUs, and sched_setaffinity(2) and
 * mbind(2) for them. Does not need libnuma. */
#define _GNU_SOURCE
#include "include/sp_cpu.h"
#include "numa.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Linux supports at most 1024 NUMA nodes (MAX_NUMNODES) and 8192 CPUs (NR_CPUS). */
enum { MAX_NODES = 1024, MAX_CPUS = 1 << 16 };

static int sensible(uint32_t nodes, uint32_t threads, const uint32_t *node_of_thread, uint32_t ncpus,
                    const uint32_t *node_of_cpu)
{
    if (nodes == 0 || nodes > MAX_NODES || threads == 0 || ncpus == 0 || ncpus > MAX_CPUS)
        return 0;
    /* Node numbers must not decrease from thread to thread, because threads_before assumes that the
     * threads of a node are consecutive. */
    for (uint32_t i = 0; i < threads; i++)
        if (node_of_thread[i] >= nodes || (i && node_of_thread[i] < node_of_thread[i - 1]))
            return 0;
    for (uint32_t i = 0; i < ncpus; i++)
        if (node_of_cpu[i] >= nodes && node_of_cpu[i] != UINT32_MAX)
            return 0;
    return 1;
}

struct sp_places *sp_places_make(uint32_t nodes, uint32_t threads, const uint32_t *node_of_thread, uint32_t ncpus,
                                 const uint32_t *node_of_cpu, int *error)
{
    *error = -EINVAL;
    if (!sensible(nodes, threads, node_of_thread, ncpus, node_of_cpu))
        return NULL;
    *error = -ENOMEM;
    struct sp_places *p = calloc(1, sizeof *p);
    uint32_t *lists = calloc((size_t)threads + nodes + 1 + ncpus, sizeof *lists);
    if (!p || !lists) {
        free(p);
        free(lists);
        return NULL;
    }
    p->nodes = nodes;
    p->threads = threads;
    p->ncpus = ncpus;
    p->node_of_thread = lists;
    p->threads_before = lists + threads;
    p->node_of_cpu = lists + threads + nodes + 1;
    memcpy(p->node_of_thread, node_of_thread, threads * sizeof *lists);
    memcpy(p->node_of_cpu, node_of_cpu, ncpus * sizeof *lists);
    for (uint32_t i = 0; i < threads; i++)
        p->threads_before[node_of_thread[i] + 1]++;
    for (uint32_t n = 0; n < nodes; n++)
        p->threads_before[n + 1] += p->threads_before[n];
    *error = 0;
    return p;
}

void sp_places_free(struct sp_places *places)
{
    if (places)
        /* one allocation holds node_of_thread and the two other lists */
        free(places->node_of_thread);
    free(places);
}

static void pin(struct sp_places *places, uint32_t first_node, uint32_t last_node)
{
    const size_t nbytes = CPU_ALLOC_SIZE(places->ncpus);
    cpu_set_t *const set = CPU_ALLOC(places->ncpus);
    if (!set)
        return;
    CPU_ZERO_S(nbytes, set);
    for (uint32_t i = 0; i < places->ncpus; i++)
        if (places->node_of_cpu[i] >= first_node && places->node_of_cpu[i] <= last_node)
            CPU_SET_S(i, nbytes, set);
    if (CPU_COUNT_S(nbytes, set) && sched_setaffinity(0, nbytes, set)) /* pid 0 means this thread */
        atomic_store(&places->refused, -errno);
    CPU_FREE(set);
}

void sp_places_pin(struct sp_places *places, uint32_t node)
{
    pin(places, node, node);
}

void sp_places_pin_to_all(struct sp_places *places)
{
    pin(places, 0, places->nodes - 1);
}

uint32_t sp_places_here(const struct sp_places *places)
{
    const int cpu = sched_getcpu();
    const uint32_t node = cpu >= 0 && (uint32_t)cpu < places->ncpus ? places->node_of_cpu[cpu] : 0;
    return node < places->nodes ? node : 0;
}

/* Asks the Linux kernel to place pages on a NUMA node. MPOL_PREFERRED
 * (include/uapi/linux/mempolicy.h) falls back to other nodes if that node is full. The call's
 * number is in libc's <sys/syscall.h>. Linux uses one bit of the mask less than `maxnode` says
 * (mm/mempolicy.c, get_nodes). */
int sp_cpu_prefer_node(void *p, uint64_t nbytes, uint32_t node)
{
    enum { MPOL_PREFERRED = 1, WORD = 8 * sizeof(unsigned long) };
    unsigned long mask[MAX_NODES / WORD] = {0};
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)p & ~(page - 1);
    if (!p || node >= MAX_NODES)
        return -EINVAL;
    mask[node / WORD] = 1ul << node % WORD;
    return syscall(SYS_mbind, begin, (uintptr_t)p + nbytes - begin, MPOL_PREFERRED, mask, (unsigned long)MAX_NODES + 1, 0u)
               ? -errno
               : 0;
}
