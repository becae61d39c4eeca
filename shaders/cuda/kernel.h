/* What every kernel here starts with: CUDA C without the toolkit's libraries, but for the functions of vmath.h.
 *
 * Arguments are those of shaders/manifest.json, in its order and with its types. The size of a group is fixed. Nothing
 * here needs a GPU to be compiled: tests/cuda/cuda_host.h gives a C++ compiler the few words of CUDA that are used. */
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;

#define KERNEL(threads) extern "C" __global__ void __launch_bounds__(threads)
#define IN(T) const T *__restrict__
#define OUT(T) T *__restrict__
#define DEVICE static __device__ __forceinline__

/* The element of this thread in a one-dimensional grid of groups of `size`. */
DEVICE u64 element(u32 size) { return (u64)blockIdx.x * size + threadIdx.x; }
