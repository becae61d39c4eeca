/* Reads the device's clock in ns of CLOCK_MONOTONIC, by TIMESTAMP queries and the offset between
 * the two clocks.
 *
 * The offset is the best of a few readings of glGetInteger64v. Because clocks drift, the offset is
 * measured again when it is more than a second old. TIME_ELAPSED queries are not used: on llvmpipe
 * they return 1 ns for compute. */
#include "clock.h"
#include "core/base.h"
#include "dl/gl.h"
#include "names.h"

#include <stdlib.h>

enum { READINGS = 5 };
static const uint64_t AGAIN_NS = 1000000000u;

static void correlate(struct sp_egl *dev)
{
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < READINGS; i++) {
        int64_t device = 0;
        uint64_t before = sp_clock_ns();
        sp_glGetInteger64v(GL_TIMESTAMP, &device);
        uint64_t after = sp_clock_ns();
        if (after - before < best) {
            best = after - before;
            dev->clock_offset_ns = (int64_t)(before + (after - before) / 2) - device;
        }
    }
    dev->clock_read_ns = sp_clock_ns();
}

void sp_egl_clock_start(struct sp_egl *dev)
{
    if (sp_egl_is(dev, SP_EGL_TIMER))
        correlate(dev);
}

static uint32_t take_query(struct sp_egl *dev)
{
    if (dev->nqueries)
        return dev->idle_queries[--dev->nqueries];
    uint32_t query = 0;
    if (sp_egl_is(dev, SP_EGL_ES))
        sp_glGenQueriesEXT(1, &query);
    else
        sp_glGenQueries(1, &query);
    return query;
}

static void give_query(struct sp_egl *dev, uint32_t query)
{
    if (dev->nqueries == dev->queries_capacity) {
        uint32_t capacity = dev->queries_capacity ? 2 * dev->queries_capacity : 64;
        uint32_t *more = realloc(dev->idle_queries, capacity * sizeof *more);
        if (!more)
            return; /* memory is short: the query object leaks until the context is destroyed */
        dev->idle_queries = more;
        dev->queries_capacity = capacity;
    }
    dev->idle_queries[dev->nqueries++] = query;
}

uint32_t sp_egl_query(struct sp_egl *dev)
{
    if (!sp_egl_is(dev, SP_EGL_TIMER))
        return 0;
    if (sp_clock_ns() - dev->clock_read_ns > AGAIN_NS)
        correlate(dev);
    uint32_t query = take_query(dev);
    if (query == 0)
        return 0;
    if (sp_egl_is(dev, SP_EGL_ES))
        sp_glQueryCounterEXT(query, GL_TIMESTAMP);
    else
        sp_glQueryCounter(query, GL_TIMESTAMP);
    return query;
}

uint64_t sp_egl_query_ns(struct sp_egl *dev, uint32_t query)
{
    uint64_t device = 0;
    if (query == 0)
        return sp_clock_ns();
    if (sp_egl_is(dev, SP_EGL_ES))
        sp_glGetQueryObjectui64vEXT(query, GL_QUERY_RESULT, &device);
    else
        sp_glGetQueryObjectui64v(query, GL_QUERY_RESULT, &device);
    give_query(dev, query);
    return (uint64_t)((int64_t)device + dev->clock_offset_ns);
}
