/* What benchmarks/emu.py times: arithmetic alone, loads and stores alone, a page for each lane, a tiled matrix product. */
#define KERNEL(size) __kernel __attribute__((reqd_work_group_size(size, 1, 1))) void
#define AT (int)(__builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x())

KERNEL(64) alu(__global const float *a, __global float *out, int rounds)
{
    float x = a[AT], y = x + 1, z = x + 2, w = x + 3;
    uint k = (uint)AT;
    for (int n = 0; n < rounds; n++) {
        for (int j = 0; j < 4; j++) {
            x = __builtin_fmaf(x, 0.5f, y);
            y = __builtin_fmaf(y, 0.25f, z);
            z = z * 0.5f + w;
            w = w * 0.125f + 1.0f;
            k = k * 1664525u + 1013904223u;
            k ^= k >> 7;
        }
    }
    out[AT] = x + y + z + w + (float)(k & 15);
}

/* Each step: a load and a store of neighbouring dwords and one of scattered ones. */
KERNEL(64) moves(__global const uint *a, __global uint *out, int rounds)
{
    int at = AT, group = __builtin_amdgcn_workgroup_id_x() * 64;
    for (int n = 0; n < rounds; n++) {
        int to = group * rounds + n * 64 + (at & 63);
        uint v = a[to];
        out[to] = v + a[group * rounds + n * 64 + (at * 7 & 63)];
    }
}

/* A dword of each page: nothing that was looked up or cached is of use again. */
KERNEL(64) scatter(__global const uint *a, __global uint *out, int stride)
{
    int at = AT * stride;
    out[at] = a[at] + 1u;
}

/* C = A B, tiles of 64 x 64, a thread 4 x 4 of it, K in steps of 16. */
KERNEL(256) sgemm(__global const float *a, __global const float *b, __global float *c, int size)
{
    __local float ta[16][68], tb[16][64];
    int t = (int)__builtin_amdgcn_workitem_id_x(), tiles = size / 64, row = t / 16 * 4, col = t % 16 * 4;
    int top = (int)__builtin_amdgcn_workgroup_id_x() / tiles * 64, left = (int)__builtin_amdgcn_workgroup_id_x() % tiles * 64;
    float sum[4][4] = {{0}};
    for (int k = 0; k < size; k += 16) {
        for (int j = 0; j < 4; j++) {
            int at = t + 256 * j;
            ta[at % 16][at / 16] = a[(top + at / 16) * size + k + at % 16];
            tb[at / 64][at % 64] = b[(k + at / 64) * size + left + at % 64];
        }
        __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
        __builtin_amdgcn_s_barrier();
        __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
        for (int n = 0; n < 16; n++) {
            float4 x = *(__local float4 *)&ta[n][row], y = *(__local float4 *)&tb[n][col];
            for (int u = 0; u < 4; u++)
                for (int v = 0; v < 4; v++) sum[u][v] = __builtin_fmaf(x[u], y[v], sum[u][v]);
        }
        __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
        __builtin_amdgcn_s_barrier();
        __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
    }
    for (int u = 0; u < 4; u++) *(__global float4 *)&c[(top + row + u) * size + left + col] = *(float4 *)sum[u];
}
