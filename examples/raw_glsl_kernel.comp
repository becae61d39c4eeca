// Smooths a signal: y[i] is a weighted mean of x[i] and its neighbours, the ends repeated.
//
// The conventions: the k-th pointer of args="f32* y, f32* x, u32 n" is the storage buffer at binding
// k, the j-th scalar the uniform at location j. There is no #version line: the one that the device
// has (OpenGL 4.3 or OpenGL ES 3.1) is put in front.
layout(local_size_x = 64) in;
layout(std430, binding = 0) writeonly buffer Y { float y[]; };
layout(std430, binding = 1) readonly buffer X { float x[]; };
layout(location = 0) uniform uint n;

// What the group needs of x, with one more at each end: each element is read from memory once.
shared float tile[66];

void main()
{
    uint i = gl_GlobalInvocationID.x;
    uint at = gl_LocalInvocationID.x + 1u;

    // Clamped, so that no thread reads outside; all threads go on to the barrier, also the idle.
    tile[at] = x[min(i, n - 1u)];
    if (at == 1u)
        tile[0] = x[i == 0u ? 0u : min(i, n) - 1u];
    if (at == 64u)
        tile[65] = x[min(i + 1u, n - 1u)];
    barrier();

    if (i < n)
        y[i] = 0.25 * tile[at - 1u] + 0.5 * tile[at] + 0.25 * tile[at + 1u];
}
