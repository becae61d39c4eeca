#version 450
// c = a + b. Binding 0 a, 1 b, 2 c: f32[n].
layout(local_size_x = 64) in;
layout(std430, binding = 0) readonly buffer A { float a[]; };
layout(std430, binding = 1) readonly buffer B { float b[]; };
layout(std430, binding = 2) writeonly buffer C { float c[]; };
layout(push_constant) uniform Sizes { uint n; };

void main()
{
    uint i = gl_GlobalInvocationID.x;
    if (i < n)
        c[i] = a[i] + b[i];
}
