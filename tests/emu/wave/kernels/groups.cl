/* Kernels whose lanes work together; their results are computed with numpy in the tests. */
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
#pragma OPENCL EXTENSION cl_khr_int64_extended_atomics : enable
#define GROUP 64
#define KERNEL __kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void
#define LID ((int)__builtin_amdgcn_workitem_id_x())
#define GID ((int)__builtin_amdgcn_workgroup_id_x())

static void barrier_all(void)
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

/* Sum of 256 numbers a group, by a tree in LDS. */
KERNEL tree_sum(__global const uint *a, __global uint *out)
{
    __local uint part[GROUP];
    uint sum = 0;
    for (int k = 0; k < 4; k++) sum += a[GID * 256 + k * GROUP + LID];
    part[LID] = sum;
    barrier_all();
    for (int step = GROUP / 2; step > 0; step /= 2) {
        if (LID < step) part[LID] += part[LID + step];
        barrier_all();
    }
    if (LID == 0) out[GID] = part[0];
}

/* Reversal through LDS of elements of 1, 2, 4, 8 and 16 bytes. */
KERNEL reverse(__global const uint4 *a, __global uint4 *out, __global ulong *out8, __global ushort *out2, __global uchar *out1)
{
    __local uint4 wide[GROUP];
    __local ulong eight[GROUP];
    __local ushort two[GROUP];
    __local uchar one[GROUP];
    uint4 v = a[GID * GROUP + LID];
    int to = GROUP - 1 - LID, at = GID * GROUP + LID;
    wide[to] = v;
    eight[to] = (ulong)v.x << 32 | v.y;
    two[to] = (ushort)v.z;
    one[to] = (uchar)v.w;
    barrier_all();
    out[at] = wide[LID];
    out8[at] = eight[LID];
    out2[at] = two[LID];
    out1[at] = one[LID];
}

/* Counts of bytes: in LDS first, then added to memory. */
KERNEL histogram(__global const uint *a, __global uint *counts, __global ulong *total, __global int *extremes)
{
    __local uint mine[256];
    for (int k = LID; k < 256; k += GROUP) mine[k] = 0;
    barrier_all();
    uint v = a[GID * GROUP + LID];
    for (int k = 0; k < 4; k++) __scoped_atomic_fetch_add(&mine[v >> 8 * k & 255], 1u, __ATOMIC_RELAXED, __MEMORY_SCOPE_WRKGRP);
    barrier_all();
    for (int k = LID; k < 256; k += GROUP)
        if (mine[k]) __scoped_atomic_fetch_add(&counts[k], mine[k], __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
    __scoped_atomic_fetch_add(total, (ulong)v, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
    __scoped_atomic_fetch_max(&extremes[0], (int)v, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
    __scoped_atomic_fetch_min(&extremes[1], (int)v, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
    uint seen = __scoped_atomic_load_n(&counts[256], __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
    while (!__scoped_atomic_compare_exchange_n(&counts[256], &seen, seen + (v & 1), 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED,
                                               __MEMORY_SCOPE_DEVICE)) {
    }
}

/* Lanes of a wave32: rows by DPP, the rest by permutations, masks by ballot. */
KERNEL wave_ops(__global const int *a, __global int *out)
{
    int at = GID * GROUP + LID, v = a[at], sum = v, lane = LID & 31;
    sum += __builtin_amdgcn_update_dpp(0, sum, 0x111, 0xf, 0xf, true);  /* row_shr:1 */
    sum += __builtin_amdgcn_update_dpp(0, sum, 0x112, 0xf, 0xf, true);
    sum += __builtin_amdgcn_update_dpp(0, sum, 0x114, 0xf, 0xf, true);
    sum += __builtin_amdgcn_update_dpp(0, sum, 0x118, 0xf, 0xf, true);
    uint odd = __builtin_amdgcn_ballot_w32(v & 1);
    out[8 * at] = sum;                                                      /* prefix sums of rows */
    out[8 * at + 1] = __builtin_amdgcn_ds_bpermute((lane ^ 5) * 4, v);
    out[8 * at + 2] = __builtin_amdgcn_readlane(v, 17);
    out[8 * at + 3] = (int)__builtin_amdgcn_mbcnt_lo(odd, 0);
    out[8 * at + 4] = __builtin_amdgcn_ds_swizzle(v, 0x401F);               /* xor 16 */
    out[8 * at + 5] = __builtin_amdgcn_permlanex16(v, v, 0x76543210, 0xFEDCBA98, false, false);
    out[8 * at + 6] = __builtin_amdgcn_mov_dpp8(v, 0x053977);
    int first = 0;
    if (v & 1) first = __builtin_amdgcn_readfirstlane(v);
    out[8 * at + 7] = first;
}

/* Which memory a pointer means is known when it runs: LDS, scratch or global. */
static __attribute__((noinline)) void bump(int *p, int by) { *p = *p * 3 + by; }
KERNEL anywhere(__global int *a, __global const int *pick)
{
    __local int shared[GROUP];
    int mine[100], at = GID * GROUP + LID;
    shared[LID] = a[at];
    for (int k = 0; k < 100; k++) mine[k] = a[at] + k;
    barrier_all();
    int *p = pick[at] == 0 ? (int *)&shared[LID] : pick[at] == 1 ? (int *)&mine[pick[at + 1] & 3] : (int *)&a[at];
    bump(p, LID);
    barrier_all();
    if (pick[at] == 0) a[at] = shared[LID];
    if (pick[at] == 1) a[at] = mine[0] + mine[1] + mine[2] + mine[3];
}

/* C = A B by tiles of 16 x 16 in LDS, 64 lanes each four elements. */
KERNEL sgemm(__global const float *a, __global const float *b, __global float *c, int size)
{
    __local float ta[16][16], tb[16][16];
    int row = LID / 16, col = LID % 16, tiles = size / 16, ty = GID / tiles, tx = GID % tiles;
    float sum[4] = {0, 0, 0, 0};
    for (int t = 0; t < tiles; t++) {
        for (int k = 0; k < 4; k++) {
            ta[row + 4 * k][col] = a[(ty * 16 + row + 4 * k) * size + t * 16 + col];
            tb[row + 4 * k][col] = b[(t * 16 + row + 4 * k) * size + tx * 16 + col];
        }
        barrier_all();
        for (int j = 0; j < 16; j++)
            for (int k = 0; k < 4; k++) sum[k] = __builtin_fmaf(ta[row + 4 * k][j], tb[j][col], sum[k]);
        barrier_all();
    }
    for (int k = 0; k < 4; k++) c[(ty * 16 + row + 4 * k) * size + tx * 16 + col] = sum[k];
}
