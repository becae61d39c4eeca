/* On which NUMA nodes the threads of a pool run, and where memory is to be. Python reads the nodes from sysfs (backends/machine.py). */
#ifndef SP_CPU_NUMA_H
#define SP_CPU_NUMA_H
#include "kernel.h"

#include <stdatomic.h>

struct sp_places {
    uint32_t nodes, threads, ncpus;
    uint32_t *node_of_thread; /* [threads] */
    uint32_t *threads_before; /* [nodes + 1]: how many threads run on the nodes before this one */
    uint32_t *node_of_cpu;    /* [ncpus]; UINT32_MAX: not ours */
    _Atomic int refused;      /* the last -errno of a pin, 0: none failed */
};

/* A copy of the caller's lists; NULL with *error -EINVAL or -ENOMEM. */
struct sp_places *sp_places_make(uint32_t nodes, uint32_t threads, const uint32_t *node_of_thread, uint32_t ncpus,
                                 const uint32_t *node_of_cpu, int *error);
void sp_places_free(struct sp_places *places);
/* Keeps the calling thread on the CPUs of a node. A preference: where the kernel refuses, the thread runs anywhere, and
 * `refused` says so. */
void sp_places_pin(struct sp_places *places, uint32_t node);
/* The same on the CPUs of all nodes. */
void sp_places_pin_to_all(struct sp_places *places);
/* The node that the calling thread runs on right now; 0 where that is none of ours. */
uint32_t sp_places_here(const struct sp_places *places);
#endif
