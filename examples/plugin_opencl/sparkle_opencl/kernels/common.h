/* What every kernel here starts with: the types of sparkle_drv's manifest by their names. */
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

typedef int i32;
typedef uint u32;
typedef long i64;
typedef ulong u64;
typedef float f32;

/* 32 bytes of numbers: what most CPUs have in a register. */
#define VECTOR_f32 float8
#define VECTOR_f64 double4

#define IN(T) __global const T *restrict
#define OUT(T) __global T *restrict

#ifdef cl_khr_fp64
typedef double f64;
#define WITH_F64(...) __VA_ARGS__
#else
#define WITH_F64(...)
#endif
