/* One source for a GPU kernel and its CPU twin: LANE(name, params, args) { body with `i` } becomes a kernel of one thread
 * a lane, or a C function that does lanes 0 to n - 1 in turn. */
#ifdef __AMDGCN__
#define GLOBAL __global
#define INLINE static inline __attribute__((always_inline))
#define NOINLINE static __attribute__((noinline))
#define GROUP 64
#define LANE(name, params, args)                                                                                      \
    INLINE void name##_lane params;                                                                                   \
    __kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void name params_of_##name                            \
    {                                                                                                                 \
        int i = (int)(__builtin_amdgcn_workgroup_id_x() * GROUP + __builtin_amdgcn_workitem_id_x());                  \
        name##_lane args;                                                                                             \
    }                                                                                                                 \
    INLINE void name##_lane params
typedef ulong u64;
typedef long i64;
typedef uint u32;
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
typedef half f16;
#else
#include <stdint.h>
#define GLOBAL
#define INLINE static inline
#define NOINLINE static __attribute__((noinline))
#define LANE(name, params, args)                                                                                      \
    static void name##_lane params;                                                                                   \
    void name params_of_##name                                                                                        \
    {                                                                                                                 \
        for (int i = 0; i < n; i++) name##_lane args;                                                                 \
    }                                                                                                                 \
    static void name##_lane params
typedef uint64_t u64;
typedef int64_t i64;
typedef uint32_t u32;
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef _Float16 f16;
#endif
