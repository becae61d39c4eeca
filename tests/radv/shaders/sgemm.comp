#version 450
// C = A B through tiles in shared memory. Binding 0 A f32[m,k], 1 B f32[k,n], 2 C f32[m,n], row major; any sizes.
layout(local_size_x = 16, local_size_y = 16) in;
layout(std430, binding = 0) readonly buffer A { float a[]; };
layout(std430, binding = 1) readonly buffer B { float b[]; };
layout(std430, binding = 2) writeonly buffer C { float c[]; };
layout(push_constant) uniform Sizes { uint m, n, k; };
shared float ta[16][17];
shared float tb[16][17];

void main()
{
    uint x = gl_LocalInvocationID.x, y = gl_LocalInvocationID.y;
    uint row = gl_WorkGroupID.y * 16 + y, column = gl_WorkGroupID.x * 16 + x;
    float sum = 0.0;
    for (uint at = 0; at < k; at += 16) {
        ta[y][x] = row < m && at + x < k ? a[row * k + at + x] : 0.0;
        tb[y][x] = at + y < k && column < n ? b[(at + y) * n + column] : 0.0;
        barrier();
        for (uint i = 0; i < 16; i++)
            sum = fma(ta[y][i], tb[i][x], sum);
        barrier();
    }
    if (row < m && column < n)
        c[row * n + column] = sum;
}
