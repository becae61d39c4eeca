/* The NUMA nodes of a pool's threads and of memory. Python reads the nodes from sysfs
 * (backends/machine.py). */
#ifndef SP_CPU_NUMA_H
#define SP_CPU_NUMA_H
#include "kernel.h"

#include <stdatomic.h>

struct sp_places {
    uint32_t nodes, threads, ncpus;
    uint32_t *node_of_thread; /* the node of each thread, [threads] */
    /* [nodes + 1]; element i: number of threads on the nodes before node i */
    uint32_t *threads_before;
    /* the node of each CPU, [ncpus]; UINT32_MAX: this process must not use the CPU */
    uint32_t *node_of_cpu;
    _Atomic int refused; /* -errno of the last pinning that failed; 0: none failed */
};

/* Makes a struct with copies of the lists `node_of_thread` and `node_of_cpu`. On failure returns
 * NULL and sets *error to -EINVAL or -ENOMEM. */
struct sp_places *sp_places_make(uint32_t nodes, uint32_t threads, const uint32_t *node_of_thread, uint32_t ncpus,
                                 const uint32_t *node_of_cpu, int *error);
void sp_places_free(struct sp_places *places);
/* Pins the calling thread to the CPUs of a node. This is only a preference: if the Linux kernel
 * refuses, the thread runs anywhere and `refused` has the error. */
void sp_places_pin(struct sp_places *places, uint32_t node);
/* Pins the calling thread to the CPUs of all nodes in `places`. */
void sp_places_pin_to_all(struct sp_places *places);
/* Returns the node of the calling thread's present CPU, or 0 if that CPU is not in `places`. */
uint32_t sp_places_here(const struct sp_places *places);
#endif
