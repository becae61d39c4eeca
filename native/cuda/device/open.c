/* Opens and closes a cuda device: queries its facts, retains the primary context, makes the state
 * that all queues share. */
#include "open.h"
#include "core/timeline.h"
#include "context.h"
#include "driver.h"
#include "lost.h"
#include "pinned.h"
#include "pool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Fewest nodes for which a list that is submitted again becomes a graph. The value comes from the
 * fake driver of tests/fake_cuda on a busy machine. There the caller's time for a graph, divided by
 * that for call-by-call replay, was 0.92 at 2 to 8 nodes, 0.76 at 16 and 0.5 at 128. A real driver
 * has not been measured yet. */
enum { GRAPH_NODES = 8 };
/* Longest wait in ns for the device's first event. The stream of that event has no earlier work. */
static const uint64_t ANCHOR_NS = 10000000000;

static pthread_mutex_t opened_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sp_cuda *opened; /* list of the devices that have a context */

static uint32_t attribute(int device, int which)
{
    int value = 0;
    return sp_cuDeviceGetAttribute(&value, which, device) == CU_OK && value > 0 ? (uint32_t)value : 0;
}

/* Queries the device limits that every launch needs. */
static int limits(int device, struct sp_cuda_info *info)
{
    const struct {
        int which;
        uint32_t *out;
    } wanted[] = {{CU_MAX_THREADS, &info->max_threads},        {CU_UNITS, &info->units},
                  {CU_MAX_BLOCK_X, &info->max_group[0]},       {CU_MAX_BLOCK_X + 1, &info->max_group[1]},
                  {CU_MAX_BLOCK_X + 2, &info->max_group[2]},   {CU_MAX_GRID_X, &info->max_groups[0]},
                  {CU_MAX_GRID_X + 1, &info->max_groups[1]},   {CU_MAX_GRID_X + 2, &info->max_groups[2]},
                  {CU_SHARED, &info->plain_shared_nbytes},     {CU_MAJOR, (uint32_t *)&info->major},
                  {CU_MINOR, (uint32_t *)&info->minor}};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        int value = 0, rc = SP_CU_RC(cuDeviceGetAttribute, &value, wanted[i].which, device);
        if (rc)
            return rc;
        *wanted[i].out = value > 0 ? (uint32_t)value : 0;
    }
    return 0;
}

static int facts(int32_t ordinal, int *device, struct sp_cuda_info *info)
{
    memset(info, 0, sizeof *info);
    info->ordinal = ordinal;
    int rc = SP_CU_RC(cuDriverGetVersion, &info->driver_version);
    if (rc == 0)
        rc = SP_CU_RC(cuDeviceGet, device, ordinal);
    if (rc == 0)
        rc = SP_CU_RC(cuDeviceGetName, info->name, sizeof info->name - 1, *device);
    size_t nbytes = 0;
    if (rc == 0)
        rc = SP_CU_RC(cuDeviceTotalMem_v2, &nbytes, *device);
    if (rc == 0)
        rc = limits(*device, info);
    if (rc)
        return rc == -EINVAL ? -ENODEV : rc;
    info->memory_nbytes = nbytes;
    if (sp_cuDeviceGetPCIBusId(info->pci, sizeof info->pci - 1, *device) != CU_OK)
        info->pci[0] = '\0';
    info->shared_nbytes = attribute(*device, CU_SHARED_OPTIN);
    if (info->shared_nbytes < info->plain_shared_nbytes)
        info->shared_nbytes = info->plain_shared_nbytes;
    info->l2_nbytes = attribute(*device, CU_L2);
    info->clock_khz = attribute(*device, CU_CLOCK_KHZ);
    const struct sp_cu_table *t = &sp_cu_table;
    if (t->cuMemAllocAsync && t->cuMemFreeAsync && t->cuDeviceGetDefaultMemPool && attribute(*device, CU_POOLS))
        info->features |= SP_CUDA_POOLS;
    if (t->cuGraphCreate && t->cuGraphAddKernelNode_v2 && t->cuGraphAddMemcpyNode && t->cuGraphAddMemsetNode &&
        t->cuGraphInstantiateWithFlags && t->cuGraphExecKernelNodeSetParams_v2 && t->cuGraphLaunch)
        info->features |= SP_CUDA_GRAPHS;
    if (t->cuIpcGetMemHandle && t->cuIpcOpenMemHandle_v2 && t->cuIpcCloseMemHandle)
        info->features |= SP_CUDA_IPC;
    if (t->cuFuncGetParamInfo)
        info->features |= SP_CUDA_PARAMS;
    if (attribute(*device, CU_INTEGRATED))
        info->features |= SP_CUDA_INTEGRATED;
    if (sp_cuda_emulated())
        info->features |= SP_CUDA_EMULATED;
    return 0;
}

int sp_cuda_describe(const char *paths, int32_t ordinal, struct sp_cuda_info *out)
{
    int device, rc = sp_cuda_start(paths);
    return rc ? rc : facts(ordinal, &device, out);
}

static void drop_contents(struct sp_cuda *dev)
{
    if (sp_cuda_enter(dev))
        return;
    sp_cuda_pinned_drop(dev);
    /* Other users of the context in this process may keep the driver's pool alive. So return the
     * pool's free memory to the driver. */
    if (dev->pool)
        sp_cuda_empty_pool(dev);
    if (dev->anchor)
        sp_cuEventDestroy_v2(dev->anchor);
    if (dev->memory_event)
        sp_cuEventDestroy_v2(dev->memory_event);
    if (dev->memory_stream)
        sp_cuStreamDestroy_v2(dev->memory_stream);
}

void sp_cuda_ref(struct sp_cuda *dev)
{
    atomic_fetch_add(&dev->refs, 1);
}

static void list_insert(struct sp_cuda *dev)
{
    pthread_mutex_lock(&opened_lock);
    dev->next = opened;
    opened = dev;
    pthread_mutex_unlock(&opened_lock);
}

static void list_remove(const struct sp_cuda *dev)
{
    pthread_mutex_lock(&opened_lock);
    struct sp_cuda **at = &opened;
    while (*at && *at != dev)
        at = &(*at)->next;
    if (*at)
        *at = dev->next;
    pthread_mutex_unlock(&opened_lock);
}

/* Resets the primary context, and marks our devices on it as lost. The reset destroys the context's
 * streams, events, modules and memory. A driver may crash if it gets a handle of a destroyed
 * object. */
static void reset(int32_t ordinal, int device)
{
    pthread_mutex_lock(&opened_lock);
    for (struct sp_cuda *dev = opened; dev; dev = dev->next)
        if (dev->info.ordinal == ordinal) {
            sp_cuda_lose(dev, "the context was reset when the device was opened again");
            atomic_store(&dev->reset, 1);
        }
    /* The result is ignored: it may be the error that the reset has just cleared. */
    sp_cuDevicePrimaryCtxReset_v2(device);
    pthread_mutex_unlock(&opened_lock);
}

void sp_cuda_unref(struct sp_cuda *dev)
{
    if (atomic_fetch_sub(&dev->refs, 1) != 1)
        return;
    if (sp_cuda_usable(dev))
        list_remove(dev);
    if (sp_cuda_usable(dev) && dev->context) {
        sp_cuda_relax();
        drop_contents(dev);
        sp_cuDevicePrimaryCtxRelease_v2(dev->handle);
        sp_cuda_released(dev);
        sp_cuda_leave();
    }
    pthread_mutex_destroy(&dev->lock);
    pthread_mutex_destroy(&dev->modules_lock);
    pthread_mutex_destroy(&dev->why_lock);
    free(dev);
    atomic_fetch_sub(&sp_live()->devices, 1);
}

/* Finds the driver's pool and makes it keep all freed memory. To return memory to the system would
 * wait for the whole device. */
static int find_pool(struct sp_cuda *dev)
{
    uint64_t keep = UINT64_MAX;
    if (!(dev->info.features & SP_CUDA_POOLS))
        return 0;
    int rc = SP_CU_RC(cuDeviceGetDefaultMemPool, &dev->pool, dev->handle);
    return rc ? rc : SP_CU_RC(cuMemPoolSetAttribute, dev->pool, CU_POOL_RELEASE_THRESHOLD, &keep);
}

/* Relates the device's clock to CLOCK_MONOTONIC by an event: waits until the event has ended, then
 * reads CLOCK_MONOTONIC. On a busy GPU the wait may be long. */
static int drop_anchor(struct sp_cuda *dev)
{
    uint64_t until = sp_clock_ns() + ANCHOR_NS;
    int rc = SP_CU_RC(cuEventCreate, &dev->anchor, 0), result = CU_NOT_READY;
    if (rc == 0)
        rc = SP_CU_RC(cuEventRecord, dev->anchor, dev->memory_stream);
    while (rc == 0 && sp_cuda_not_ready(result = sp_cuEventQuery(dev->anchor)) && sp_clock_ns() < until)
        sp_cpu_relax();
    dev->anchor_ns = sp_clock_ns();
    return rc ? rc : sp_cu_rc("cuEventQuery", result);
}

static int fill_in(struct sp_cuda *dev)
{
    int rc = SP_CU_RC(cuDevicePrimaryCtxRetain, &dev->context, dev->handle);
    if (rc == 0)
        rc = sp_cuda_enter(dev);
    if (rc == 0)
        rc = SP_CU_RC(cuStreamCreate, &dev->memory_stream, CU_STREAM_NON_BLOCKING);
    if (rc == 0)
        rc = SP_CU_RC(cuEventCreate, &dev->memory_event, CU_EVENT_DISABLE_TIMING);
    if (rc == 0)
        rc = find_pool(dev);
    return rc ? rc : drop_anchor(dev);
}

static int try_open(int32_t ordinal, struct sp_cuda **out)
{
    struct sp_cuda *dev = calloc(1, sizeof *dev);
    if (!dev)
        return -ENOMEM;
    pthread_mutex_init(&dev->lock, NULL);
    pthread_mutex_init(&dev->modules_lock, NULL);
    pthread_mutex_init(&dev->why_lock, NULL);
    dev->common.fork_generation = sp_fork_generation();
    atomic_store(&dev->refs, 1);
    atomic_store(&dev->graph_nodes, GRAPH_NODES);
    atomic_fetch_add(&sp_live()->devices, 1);
    int rc = facts(ordinal, &dev->handle, &dev->info);
    if (rc == 0)
        rc = fill_in(dev);
    if (rc) {
        sp_cuda_unref(dev);
        return rc;
    }
    list_insert(dev);
    *out = dev;
    return 0;
}

/* Resets the primary context and opens the device again. A failed kernel leaves its error to all
 * users of the primary context until a reset. Some errors stay with the process even after the
 * reset. */
static int open_anew(int32_t ordinal, struct sp_cuda **out)
{
    int device = 0;
    char before[600] = "";
    sp_cuda_why(before, sizeof before - 1);
    sp_cuda_current = NULL;
    /* The failed attempt to open the device restored this thread's capture mode at its end. So set
     * it to relaxed again. */
    sp_cuda_relax();
    int rc = SP_CU_RC(cuDeviceGet, &device, ordinal);
    if (rc == 0) {
        reset(ordinal, device);
        rc = try_open(ordinal, out);
    }
    if (rc)
        sp_cu_say("%s; this process cannot use the device any more: start a new one", before);
    return rc;
}

int sp_cuda_open(const char *paths, int32_t ordinal, struct sp_cuda **out)
{
    int rc = sp_cuda_start(paths);
    if (rc)
        return rc;
    sp_cuda_relax();
    rc = try_open(ordinal, out);
    if (rc == -ENODEV)
        rc = open_anew(ordinal, out);
    sp_cuda_leave();
    return rc;
}

void sp_cuda_close(struct sp_cuda *dev)
{
    if (dev && sp_cuda_usable(dev))
        sp_cuda_unref(dev);
}

void sp_cuda_facts(const struct sp_cuda *dev, struct sp_cuda_info *out)
{
    *out = dev->info;
}

void *sp_cuda_context(const struct sp_cuda *dev)
{
    return dev->context;
}

int sp_cuda_free_nbytes(struct sp_cuda *dev, uint64_t *nbytes)
{
    size_t unused = 0, total;
    int rc = sp_cuda_usable(dev) ? sp_cuda_enter(dev) : -ECHILD;
    if (rc == 0)
        rc = SP_CUDA_RC(dev, cuMemGetInfo_v2, &unused, &total);
    sp_cuda_leave();
    *nbytes = unused;
    return rc;
}

void sp_cuda_counts(const struct sp_cuda *dev, struct sp_cuda_counts *out)
{
    out->replayed = atomic_load(&dev->replayed);
    out->graph_builds = atomic_load(&dev->graph_builds);
    out->graph_launches = atomic_load(&dev->graph_launches);
    out->graph_updates = atomic_load(&dev->graph_updates);
}

uint32_t sp_cuda_graph_nodes(struct sp_cuda *dev, uint32_t least)
{
    return least ? atomic_exchange(&dev->graph_nodes, least) : atomic_load(&dev->graph_nodes);
}
