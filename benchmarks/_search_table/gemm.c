/* C = A B for N x N floats in tiles of BM x BN x BK; inside one, UM rows by VEC columns of C stay in
 * registers. Compiled once for each point of the table by record.py, which calls run(). */
#define N 192
#if VEC == 1
typedef float vec;
#else
typedef float vec __attribute__((vector_size(4 * VEC), aligned(4)));
#endif

static void tile(float *c, const float *a, const float *b)
{
    for (int i = 0; i < BM; i += UM)
        for (int j = 0; j < BN; j += VEC) {
            vec sum[UM];
            for (int u = 0; u < UM; u++)
                sum[u] = *(vec *)&c[(i + u) * N + j];
            for (int k = 0; k < BK; k++) {
                vec row = *(const vec *)&b[k * N + j];
                for (int u = 0; u < UM; u++)
                    sum[u] += a[(i + u) * N + k] * row;
            }
            for (int u = 0; u < UM; u++)
                *(vec *)&c[(i + u) * N + j] = sum[u];
        }
}

void run(float *c, const float *a, const float *b)
{
    for (int i = 0; i < N * N; i++)
        c[i] = 0;
    for (int k = 0; k < N; k += BK)
        for (int j = 0; j < N; j += BN)
            for (int i = 0; i < N; i += BM)
                tile(c + i * N + j, a + i * N + k, b + k * N + j);
}
