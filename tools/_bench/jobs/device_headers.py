"""Definitions that clang needs to compile OpenCL C and HIP for AMD GPUs without ROCm.

OPENCL defines the index functions, barriers and some mathematics as compiler builtins. HIP replaces
<hip/hip_runtime.h>. compilers.py includes them before the user's source. Everything else, such as
printf or images, needs ROCm.
"""

OPENCL = r"""
#define SP_OF(d, x, y, z) ((d) == 0 ? (x) : (d) == 1 ? (y) : (d) == 2 ? (z) : 0u)
#define SP_IDS(name) \
    SP_OF(d, __builtin_amdgcn_##name##_x(), __builtin_amdgcn_##name##_y(), \
          __builtin_amdgcn_##name##_z())
#define SP_HIDDEN(i) ((__constant const uint *)__builtin_amdgcn_implicitarg_ptr())[i]
static inline size_t sp_local_id(uint d) { return SP_IDS(workitem_id); }
static inline size_t sp_group_id(uint d) { return SP_IDS(workgroup_id); }
static inline size_t sp_local_size(uint d)
{
    return d < 3 ? SP_IDS(workgroup_size) : 1;
}
static inline size_t sp_num_groups(uint d) { return d < 3 ? SP_HIDDEN(d) : 1; }
#define get_local_id(d) sp_local_id(d)
#define get_group_id(d) sp_group_id(d)
#define get_local_size(d) sp_local_size(d)
#define get_num_groups(d) sp_num_groups(d)
#define get_global_id(d) (sp_group_id(d) * sp_local_size(d) + sp_local_id(d))
#define get_global_size(d) (sp_num_groups(d) * sp_local_size(d))
#define get_global_offset(d) ((size_t)0)
#define barrier(flags) \
    do { \
        __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup"); \
        __builtin_amdgcn_s_barrier(); \
        __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup"); \
    } while (0)
#define work_group_barrier(...) barrier(0)
#define fma(a, b, c) __builtin_elementwise_fma(a, b, c)
#define mad(a, b, c) __builtin_elementwise_fma(a, b, c)
#define sqrt(a) __builtin_elementwise_sqrt(a)
#define exp2(a) __builtin_elementwise_exp2(a)
#define log2(a) __builtin_elementwise_log2(a)
#define fabs(a) __builtin_elementwise_abs(a)
#define floor(a) __builtin_elementwise_floor(a)
#define ceil(a) __builtin_elementwise_ceil(a)
#define rint(a) __builtin_elementwise_rint(a)
#define fmin(a, b) __builtin_elementwise_min(a, b)
#define fmax(a, b) __builtin_elementwise_max(a, b)
#define min(a, b) __builtin_elementwise_min(a, b)
#define max(a, b) __builtin_elementwise_max(a, b)
"""

HIP = r"""
#pragma once
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
struct dim3 {
    unsigned x, y, z;
};
static __device__ inline unsigned sp_hidden(int i)
{
    typedef const __attribute__((address_space(4))) unsigned *pointer;
    return ((pointer)__builtin_amdgcn_implicitarg_ptr())[i];
}
#define SP_IDS(name) \
    (dim3{__builtin_amdgcn_##name##_x(), __builtin_amdgcn_##name##_y(), \
          __builtin_amdgcn_##name##_z()})
#define threadIdx SP_IDS(workitem_id)
#define blockIdx SP_IDS(workgroup_id)
#define blockDim SP_IDS(workgroup_size)
#define gridDim (dim3{sp_hidden(0), sp_hidden(1), sp_hidden(2)})
static __device__ inline void __syncthreads()
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
template <typename T> static __device__ inline T atomicAdd(T *at, T value)
{
    return __hip_atomic_fetch_add(at, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
static __device__ inline float fmaf(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
static __device__ inline float sqrtf(float a) { return __builtin_sqrtf(a); }
static __device__ inline float fabsf(float a) { return __builtin_fabsf(a); }
static __device__ inline float fminf(float a, float b) { return __builtin_fminf(a, b); }
static __device__ inline float fmaxf(float a, float b) { return __builtin_fmaxf(a, b); }
"""
