/* Chooses the form of a convolution: the algorithm, which also determines the layout of packed
 * weights. */
#include "shape.h"

/* limit in bytes of a thread's window (copied input rows) in depthwise convolution and strips */
enum { MOST_WINDOW_NBYTES = 1 << 20 };

static int is_depthwise(const struct sp_conv *v, enum sp_isa isa)
{
    return v->cg == 1 && v->ocg == 1 && sp_conv_depthwise_window(v, isa) <= MOST_WINDOW_NBYTES;
}

enum sp_conv_form sp_conv_form(const struct sp_conv *v, const struct sp_tile_plan *plan, enum sp_isa isa)
{
    /* Without channels to sum, only SP_CONV_PLAIN works: the other forms divide channels into
     * pieces. */
    if (v->cg == 0)
        return SP_CONV_PLAIN;
    switch (plan->algo) {
    case SP_ALGO_WINOGRAD:
        return SP_CONV_WINOGRAD;
    case SP_ALGO_WINOGRAD2:
        return SP_CONV_WINOGRAD2;
    case SP_ALGO_WINOGRAD6:
        return SP_CONV_WINOGRAD6;
    case SP_ALGO_AUTO:
        if (isa == SP_ISA_REF)
            return SP_CONV_PLAIN;
        break;
    case SP_ALGO_DIRECT:
        break;
    default:
        return SP_CONV_PLAIN;
    }
    if (is_depthwise(v, isa))
        return SP_CONV_PLAIN;
    const int strips = plan->mr && plan->nr ? plan->mr < plan->nr : v->ocg < sp_conv_kernels[isa]->lanes;
    return strips && sp_conv_strips_window(v, isa) <= MOST_WINDOW_NBYTES ? SP_CONV_STRIPS : SP_CONV_PIXELS;
}
