/* Activations of one element, which gemm and conv2d apply as their last step. */
#ifndef SP_CPU_ACTIVATION_H
#define SP_CPU_ACTIVATION_H
#include "cpu/runtime/kernel.h"
#include "vmath.h"

static inline float sp_act_f32(float x, uint32_t act)
{
    return act == SP_ACT_RELU ? sp_relu_f32(x)
           : act == SP_ACT_TANH ? sp_tanh_f32(x)
           : act == SP_ACT_SIGMOID ? sp_sigmoid_f32(x)
                                   : x;
}

static inline double sp_act_f64(double x, uint32_t act)
{
    return act == SP_ACT_RELU ? sp_relu_f64(x)
           : act == SP_ACT_TANH ? sp_tanh_f64(x)
           : act == SP_ACT_SIGMOID ? sp_sigmoid_f64(x)
                                   : x;
}
#endif
