/* One kernel for each thing that a loader must understand, or refuse. Built by build.sh; see test_codeobject.py. */
#pragma OPENCL EXTENSION __cl_clang_function_pointers : enable

#define X __builtin_amdgcn_workitem_id_x()
#define GX __builtin_amdgcn_workgroup_id_x()

__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void simple(__global float *y, __global const float *x, int n)
{
    int i = GX * 64 + X;
    if (i < n) y[i] = x[i] + 1;
}

__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void stack(__global int *y, int n)
{
    volatile int a[64];
    for (int i = 0; i < 64; i++) a[i] = n * i;
    y[GX * 64 + X] = a[X] + a[n & 63];
}

__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void lds(__global int *y, int n)
{
    __local int t[1000];
    t[X] = n + X;
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
    y[X] = t[63 - X];
}

__kernel void xyz(__global int *y)
{
    int x = __builtin_amdgcn_workgroup_id_x() * 4 + __builtin_amdgcn_workitem_id_x();
    int b = __builtin_amdgcn_workgroup_id_y() * 3 + __builtin_amdgcn_workitem_id_y();
    int c = __builtin_amdgcn_workgroup_id_z() * 2 + __builtin_amdgcn_workitem_id_z();
    y[(c * 6 + b) * 8 + x] = 10000 * c + 100 * b + x;
}

/* Everything that the driver fills in by itself; the offsets are those of code object v5. */
__kernel void hidden(__global uint *y)
{
    __constant const uint *words = (__constant const uint *)__builtin_amdgcn_implicitarg_ptr();
    __constant const ushort *halves = (__constant const ushort *)words;
    for (int k = 0; k < 3; k++) {
        y[k] = words[k];         /* hidden_block_count */
        y[3 + k] = halves[6 + k]; /* hidden_group_size */
        y[6 + k] = halves[9 + k]; /* hidden_remainder */
    }
    y[9] = halves[32]; /* hidden_grid_dims */
    y[10] = words[30]; /* hidden_dynamic_lds_size */
}

__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void local_pointer(__global int *y, __local int *t, int n)
{
    __local int own[3];
    own[X % 3] = 5;
    t[X] = n * X;
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
    y[X] = t[63 - X] + own[0];
}

__global int counter = 5;
__global int *__constant pointers[2] = {&counter, &counter};
__kernel void relocated(__global int *y, int n)
{
    int i = *(volatile __global int *)pointers[n & 1];
    *pointers[n & 1] = i + 1;
    y[0] = i;
}

__kernel void scalars(__global double *y, char c, double d, short s, long l, float f) { y[0] = c + d + s + l + f; }

/* What is refused. */
__kernel void dynamic_stack(__global int *y, __global ulong *f, int n) { y[0] = ((int (*)(int))f[0])(n); }

__kernel void dispatch_packet(__global int *y) { y[0] = ((__constant int *)__builtin_amdgcn_dispatch_ptr())[1]; }
