#version 450
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_basic : require
// out[group] = sum of the group's 256 elements, by subgroups. Binding 0 in f32[n], 1 unused f32[1], 2 out f32[groups].
layout(local_size_x = 256) in;
layout(std430, binding = 0) readonly buffer A { float a[]; };
layout(std430, binding = 1) readonly buffer B { float b[]; };
layout(std430, binding = 2) writeonly buffer C { float c[]; };
layout(push_constant) uniform Sizes { uint n; };
shared float partial[64];

void main()
{
    uint i = gl_GlobalInvocationID.x;
    float sum = subgroupAdd(i < n ? a[i] : 0.0);
    if (subgroupElect())
        partial[gl_SubgroupID] = sum;
    barrier();
    if (gl_LocalInvocationID.x == 0) {
        float total = 0.0;
        for (uint s = 0; s < gl_NumSubgroups; s++)
            total += partial[s];
        c[gl_WorkGroupID.x] = total;
    }
}
