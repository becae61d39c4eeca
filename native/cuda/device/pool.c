/* The driver's stream-ordered memory pool. */
#include "pool.h"
#include "core/timeline.h"
#include "driver.h"

/* Returns the pool's free memory to the driver, because the pieces in the pool may be too small for
 * the next request. */
void sp_cuda_empty_pool(struct sp_cuda *dev)
{
    static const uint64_t MOST_NS = UINT64_C(5000000000);
    uint64_t until = sp_clock_ns() + MOST_NS;
    while (sp_cuda_not_ready(sp_cuStreamQuery(dev->memory_stream)) && sp_clock_ns() < until)
        sp_cpu_relax();
    sp_cuMemPoolTrimTo(dev->pool, 0);
}
