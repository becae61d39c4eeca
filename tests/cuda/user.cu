// A user's kernel, for tests of images: saxpy_f32 as in shaders/cuda, whose name the fake driver knows, and one with
// local arrays of shared memory and an argument of 12 bytes. Compiled by nvcc 13.0.88:
//     for sm in 80 90; do nvcc -cubin -arch=sm_$sm -o user.sm_$sm.cubin user.cu; done
extern "C" __global__ void saxpy_f32(float *y, const float *x, float a, unsigned n)
{
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = a * x[i] + y[i];
}

struct triple {
    float x, y, z;
};

extern "C" __global__ void weighed(float *y, triple w, unsigned char flag)
{
    __shared__ float part[256];
    part[threadIdx.x] = flag ? w.x : w.y;
    __syncthreads();
    y[threadIdx.x] = part[255 - threadIdx.x] * w.z;
}
