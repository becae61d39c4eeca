#version 450
// Atomics on a storage image: many threads on each texel of an image of 8 x 8, whose four layers get one operation each.
layout(local_size_x = 64) in;
layout(push_constant) uniform Job { ivec3 size; int mode; };
layout(binding = 0) readonly buffer In { uvec4 given[]; };
layout(binding = 1) writeonly buffer Out { uvec4 found[]; };
layout(binding = 2, r32ui) uniform uimage2DArray image;

void main()
{
    int i = int(gl_GlobalInvocationID.x);
    if (i >= size.x) return;
    ivec2 p = ivec2(i % 8, i / 8 % 8);
    imageAtomicAdd(image, ivec3(p, 0), given[i].x);
    imageAtomicMax(image, ivec3(p, 1), given[i].x);
    imageAtomicXor(image, ivec3(p, 2), given[i].x);
    // Counts by compare and swap: each thread adds one.
    uint seen = 0, before = 1;
    while (seen != before) {
        before = seen;
        seen = imageAtomicCompSwap(image, ivec3(p, 3), before, before + 1);
    }
    found[i] = uvec4(seen, imageAtomicExchange(image, ivec3(0, 0, 4), 7u), 0, 0);
}
