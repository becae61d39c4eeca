/* What every kernel here starts with. OpenCL C without its library: clang's own builtins are all there is.
 *
 * Arguments are those of shaders/manifest.json, in its order and with its types. The size of a workgroup is fixed, so
 * that nothing has to be asked of the launch. */
#pragma OPENCL EXTENSION cl_khr_fp64 : enable

typedef unsigned char u8;
typedef int i32;
typedef unsigned int u32;
typedef long i64;
typedef unsigned long u64;
typedef float f32;
typedef double f64;

#define KERNEL(x, y) __kernel __attribute__((reqd_work_group_size(x, y, 1))) void
#define IN(T) __global const T *restrict
#define OUT(T) __global T *restrict

static inline u32 local_x(void) { return __builtin_amdgcn_workitem_id_x(); }
static inline u32 local_y(void) { return __builtin_amdgcn_workitem_id_y(); }
static inline u32 group_x(void) { return __builtin_amdgcn_workgroup_id_x(); }
static inline u32 group_y(void) { return __builtin_amdgcn_workgroup_id_y(); }

/* The element of thread i in a one-dimensional grid of groups of `size`. */
static inline u64 element(u32 size) { return (u64)group_x() * size + local_x(); }

/* Every thread of the group is here, and sees what the others wrote to local memory. */
static inline void barrier_local(void)
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
