#version 450
// y = conv2d(x, w), 3x3, padding 1, stride 1. Binding 0 x f32[c,h,w], 1 w f32[o,c,3,3], 2 y f32[o,h,w].
layout(local_size_x = 8, local_size_y = 8) in;
layout(std430, binding = 0) readonly buffer X { float x[]; };
layout(std430, binding = 1) readonly buffer W { float weight[]; };
layout(std430, binding = 2) writeonly buffer Y { float y[]; };
layout(push_constant) uniform Sizes { uint channels, height, width; };

void main()
{
    uint column = gl_GlobalInvocationID.x, row = gl_GlobalInvocationID.y, out_channel = gl_GlobalInvocationID.z;
    if (column >= width || row >= height)
        return;
    float sum = 0.0;
    for (uint c = 0; c < channels; c++)
        for (uint i = 0; i < 3; i++)
            for (uint j = 0; j < 3; j++) {
                int r = int(row + i) - 1, s = int(column + j) - 1;
                if (r >= 0 && s >= 0 && r < int(height) && s < int(width))
                    sum += x[(c * height + r) * width + s] * weight[((out_channel * channels + c) * 3 + i) * 3 + j];
            }
    y[(out_channel * height + row) * width + column] = sum;
}
