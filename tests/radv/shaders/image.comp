#version 450
// One texel a thread, in the order of x, y, z. make.py gives IMAGE, VEC and COORD: the image's type, what a texel holds,
// and the image's coordinates of a point.
#extension GL_EXT_shader_image_load_formatted : enable
layout(local_size_x = 64) in;
layout(push_constant) uniform Job { ivec3 size; int mode; };
layout(binding = 0) readonly buffer In { VEC given[]; };
layout(binding = 1) writeonly buffer Out { VEC found[]; };
layout(binding = 2) uniform IMAGE image;

const int STORE = 0, LOAD = 1, OUTSIDE = 2, SIZE = 3, ONE_CHANNEL = 4;

void main()
{
    int i = int(gl_GlobalInvocationID.x);
    if (i >= size.x * size.y * size.z) return;
    ivec3 p = ivec3(i % size.x, i / size.x % size.y, i / (size.x * size.y));
    if (mode == STORE) imageStore(image, COORD(p), given[i]);
    if (mode == ONE_CHANNEL) imageStore(image, COORD(p), VEC(given[i].x, 0, 0, 0));
    if (mode == LOAD) found[i] = imageLoad(image, COORD(p));
    if (mode == OUTSIDE) found[i] = imageLoad(image, COORD((p + ivec3(size.x, 0, 0))));
    if (mode == SIZE) {
        ivec3 s = ivec4(imageSize(image), ivec3(1)).xyz;
        found[i] = VEC(s, 1);
    }
}
