/* A small Vulkan program: storage images and texel buffers. It knows nothing of the emulated GPU under the driver.
 *
 *   vk_image FOLDER gfx|compute
 *
 * Each case stores random texels through a shader, loads them, loads beyond the edge, asks for the size, and looks at the
 * bytes: of linear images and texel buffers in their own memory, of optimal ones (on the compute queue) as
 * vkCmdCopyImageToBuffer gives them. Prints a line for each case that is wrong, and at last "right M of M" or "wrong N of
 * M"; exit codes are those of vk_compute. */
#include "vk_app.h"
#include "vk_texel.h"

enum { MOST = 1 << 15, STORE = 0, LOAD, OUTSIDE, SIZE, ONE_CHANNEL };

struct shape {
    const char *shader;
    VkImageType type;
    VkImageViewType view;
    uint32_t size[3]; /* of the level looked at; z: depth or layers */
    uint32_t levels, level;
    VkImageTiling tiling;
    int texel_buffer;
};
#define OPTIMAL VK_IMAGE_TILING_OPTIMAL
#define LINEAR VK_IMAGE_TILING_LINEAR
static const struct shape shapes[] = {
    {"image_1d", VK_IMAGE_TYPE_1D, VK_IMAGE_VIEW_TYPE_1D, {300, 1, 1}, 1, 0, OPTIMAL, 0},
    {"image_1d_array", VK_IMAGE_TYPE_1D, VK_IMAGE_VIEW_TYPE_1D_ARRAY, {70, 1, 5}, 1, 0, OPTIMAL, 0},
    {"image_2d", VK_IMAGE_TYPE_2D, VK_IMAGE_VIEW_TYPE_2D, {150, 141, 1}, 1, 0, OPTIMAL, 0},
    {"image_2d", VK_IMAGE_TYPE_2D, VK_IMAGE_VIEW_TYPE_2D, {45, 41, 1}, 1, 0, OPTIMAL, 0},
    {"image_2d", VK_IMAGE_TYPE_2D, VK_IMAGE_VIEW_TYPE_2D, {37, 25, 1}, 1, 0, LINEAR, 0},
    {"image_2d", VK_IMAGE_TYPE_2D, VK_IMAGE_VIEW_TYPE_2D, {75, 70, 1}, 8, 1, OPTIMAL, 0},
    {"image_2d", VK_IMAGE_TYPE_2D, VK_IMAGE_VIEW_TYPE_2D, {9, 8, 1}, 8, 4, OPTIMAL, 0},
    {"image_2d_array", VK_IMAGE_TYPE_2D, VK_IMAGE_VIEW_TYPE_2D_ARRAY, {33, 65, 6}, 1, 0, OPTIMAL, 0},
    {"image_2d_array", VK_IMAGE_TYPE_2D, VK_IMAGE_VIEW_TYPE_2D_ARRAY, {33, 32, 3}, 6, 2, OPTIMAL, 0},
    {"image_cube", VK_IMAGE_TYPE_2D, VK_IMAGE_VIEW_TYPE_CUBE, {32, 32, 6}, 1, 0, OPTIMAL, 0},
    {"image_3d", VK_IMAGE_TYPE_3D, VK_IMAGE_VIEW_TYPE_3D, {21, 18, 11}, 1, 0, OPTIMAL, 0},
    {"image_3d", VK_IMAGE_TYPE_3D, VK_IMAGE_VIEW_TYPE_3D, {10, 9, 7}, 5, 1, OPTIMAL, 0},
    {"image_buffer", VK_IMAGE_TYPE_1D, VK_IMAGE_VIEW_TYPE_1D, {700, 1, 1}, 1, 0, LINEAR, 1},
};

struct target {
    VkImage image;
    VkImageView view;
    VkDeviceMemory memory;
    VkBufferView buffer_view;
    struct buffer buffer;
    uint8_t *mapped; /* linear images */
    VkSubresourceLayout layout;
};

static int make_image(const struct app *app, const struct format *f, const struct shape *s, struct target *t)
{
    int is_3d = s->type == VK_IMAGE_TYPE_3D, cube = s->view == VK_IMAGE_VIEW_TYPE_CUBE, linear = s->tiling == LINEAR;
    uint32_t across = s->size[0] << s->level, down = s->type == VK_IMAGE_TYPE_1D ? 1 : s->size[1] << s->level;
    VkImageCreateInfo info = {.sType = VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO,
                              .flags = cube ? VK_IMAGE_CREATE_CUBE_COMPATIBLE_BIT : 0,
                              .imageType = s->type,
                              .format = f->format,
                              .extent = {across, down, is_3d ? s->size[2] << s->level : 1},
                              .mipLevels = s->levels,
                              .arrayLayers = is_3d ? 1 : s->size[2],
                              .samples = VK_SAMPLE_COUNT_1_BIT,
                              .tiling = s->tiling,
                              .usage = VK_IMAGE_USAGE_STORAGE_BIT | VK_IMAGE_USAGE_TRANSFER_SRC_BIT};
    VkImageFormatProperties can;
    if (vkGetPhysicalDeviceImageFormatProperties(app->physical, f->format, s->type, s->tiling, info.usage, info.flags, &can))
        return 0;
    check(vkCreateImage(app->device, &info, NULL, &t->image), "vkCreateImage");
    VkMemoryRequirements needs;
    vkGetImageMemoryRequirements(app->device, t->image, &needs);
    VkMemoryAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                     .allocationSize = needs.size,
                                     .memoryTypeIndex = linear ? host_memory_type(app, needs.memoryTypeBits)
                                                               : (uint32_t)__builtin_ctz(needs.memoryTypeBits)};
    check(vkAllocateMemory(app->device, &allocate, NULL, &t->memory), "vkAllocateMemory");
    check(vkBindImageMemory(app->device, t->image, t->memory, 0), "vkBindImageMemory");
    VkImageSubresource whole = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 0};
    if (linear) {
        check(vkMapMemory(app->device, t->memory, 0, VK_WHOLE_SIZE, 0, (void **)&t->mapped), "vkMapMemory");
        vkGetImageSubresourceLayout(app->device, t->image, &whole, &t->layout);
    }
    VkImageViewCreateInfo view = {.sType = VK_STRUCTURE_TYPE_IMAGE_VIEW_CREATE_INFO,
                                  .image = t->image,
                                  .viewType = s->view,
                                  .format = f->format,
                                  .subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, s->level, 1, 0, info.arrayLayers}};
    check(vkCreateImageView(app->device, &view, NULL, &t->view), "vkCreateImageView");
    return 1;
}

static int make_texel_buffer(const struct app *app, const struct format *f, const struct shape *s, struct target *t)
{
    VkFormatProperties can;
    vkGetPhysicalDeviceFormatProperties(app->physical, f->format, &can);
    if (!(can.bufferFeatures & VK_FORMAT_FEATURE_STORAGE_TEXEL_BUFFER_BIT))
        return 0;
    VkDeviceSize nbytes = s->size[0] * nbytes_of(f);
    t->buffer = make_buffer(app, nbytes, VK_BUFFER_USAGE_STORAGE_TEXEL_BUFFER_BIT);
    t->mapped = t->buffer.mapped;
    VkBufferViewCreateInfo view = {.sType = VK_STRUCTURE_TYPE_BUFFER_VIEW_CREATE_INFO,
                                   .buffer = t->buffer.buffer,
                                   .format = f->format,
                                   .range = nbytes};
    check(vkCreateBufferView(app->device, &view, NULL, &t->buffer_view), "vkCreateBufferView");
    return 1;
}

struct machine {
    struct app app;
    const char *folder;
    struct buffer in, out, bytes;
    VkCommandPool pool;
    VkDescriptorPool descriptors;
    VkFence fence;
    int copies; /* the queue can copy images by computing */
};

struct pipeline {
    VkPipeline pipeline;
    VkPipelineLayout layout;
    VkDescriptorSet set;
};

static struct pipeline make_pipeline(const struct machine *m, const char *shader, int texel_buffer)
{
    struct pipeline made;
    const struct app *app = &m->app;
    VkDescriptorType third = texel_buffer ? VK_DESCRIPTOR_TYPE_STORAGE_TEXEL_BUFFER : VK_DESCRIPTOR_TYPE_STORAGE_IMAGE;
    VkDescriptorSetLayoutBinding bindings[3];
    for (uint32_t i = 0; i < 3; i++)
        bindings[i] = (VkDescriptorSetLayoutBinding){
            i, i < 2 ? VK_DESCRIPTOR_TYPE_STORAGE_BUFFER : third, 1, VK_SHADER_STAGE_COMPUTE_BIT, NULL};
    VkDescriptorSetLayoutCreateInfo set = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO, .bindingCount = 3, .pBindings = bindings};
    VkDescriptorSetLayout set_layout;
    check(vkCreateDescriptorSetLayout(app->device, &set, NULL, &set_layout), "vkCreateDescriptorSetLayout");
    VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, 16};
    VkPipelineLayoutCreateInfo layout = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                         .setLayoutCount = 1,
                                         .pSetLayouts = &set_layout,
                                         .pushConstantRangeCount = 1,
                                         .pPushConstantRanges = &range};
    check(vkCreatePipelineLayout(app->device, &layout, NULL, &made.layout), "vkCreatePipelineLayout");
    VkComputePipelineCreateInfo info = {.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
                                        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                                                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                                                  .module = load_shader(app, m->folder, shader),
                                                  .pName = "main"},
                                        .layout = made.layout};
    check(vkCreateComputePipelines(app->device, VK_NULL_HANDLE, 1, &info, NULL, &made.pipeline), "vkCreateComputePipelines");
    VkDescriptorSetAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
                                            .descriptorPool = m->descriptors,
                                            .descriptorSetCount = 1,
                                            .pSetLayouts = &set_layout};
    check(vkAllocateDescriptorSets(app->device, &allocate, &made.set), "vkAllocateDescriptorSets");
    return made;
}

static void bind_targets(const struct machine *m, const struct pipeline *p, const struct target *t)
{
    VkDescriptorImageInfo image = {VK_NULL_HANDLE, t->view, VK_IMAGE_LAYOUT_GENERAL};
    VkWriteDescriptorSet write = {.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET, .dstSet = p->set, .descriptorCount = 1};
    const struct buffer *buffers[2] = {&m->in, &m->out};
    for (uint32_t i = 0; i < 2; i++) {
        VkDescriptorBufferInfo buffer = {buffers[i]->buffer, 0, VK_WHOLE_SIZE};
        write.dstBinding = i;
        write.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
        write.pBufferInfo = &buffer;
        vkUpdateDescriptorSets(m->app.device, 1, &write, 0, NULL);
    }
    write.dstBinding = 2;
    write.descriptorType = t->view ? VK_DESCRIPTOR_TYPE_STORAGE_IMAGE : VK_DESCRIPTOR_TYPE_STORAGE_TEXEL_BUFFER;
    write.pImageInfo = &image;
    write.pTexelBufferView = &t->buffer_view;
    vkUpdateDescriptorSets(m->app.device, 1, &write, 0, NULL);
}

static VkCommandBuffer begin(const struct machine *m)
{
    VkCommandBufferAllocateInfo allocate = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, .commandPool = m->pool, .commandBufferCount = 1};
    VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    VkCommandBuffer commands;
    check(vkAllocateCommandBuffers(m->app.device, &allocate, &commands), "vkAllocateCommandBuffers");
    check(vkBeginCommandBuffer(commands, &info), "vkBeginCommandBuffer");
    return commands;
}

static void finish(const struct machine *m, VkCommandBuffer commands)
{
    VkMemoryBarrier barrier = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                               .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
                               .dstAccessMask = VK_ACCESS_HOST_READ_BIT};
    vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier, 0, NULL, 0,
                         NULL);
    check(vkEndCommandBuffer(commands), "vkEndCommandBuffer");
    submit(&m->app, &commands, m->fence);
    await(&m->app, m->fence);
    check(vkResetFences(m->app.device, 1, &m->fence), "vkResetFences");
    vkFreeCommandBuffers(m->app.device, m->pool, 1, &commands);
}

static void dispatch(const struct machine *m, const struct pipeline *p, const struct target *t, const uint32_t size[3],
                     int mode)
{
    int32_t job[4] = {(int32_t)size[0], (int32_t)size[1], (int32_t)size[2], mode};
    VkCommandBuffer commands = begin(m);
    VkImageMemoryBarrier general = {.sType = VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER,
                                    .dstAccessMask = VK_ACCESS_SHADER_WRITE_BIT,
                                    .oldLayout = VK_IMAGE_LAYOUT_UNDEFINED,
                                    .newLayout = VK_IMAGE_LAYOUT_GENERAL,
                                    .image = t->image,
                                    .subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, VK_REMAINING_MIP_LEVELS, 0,
                                                         VK_REMAINING_ARRAY_LAYERS}};
    if (t->image && mode == STORE)
        vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 0, NULL, 0,
                             NULL, 1, &general);
    vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, p->pipeline);
    vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, p->layout, 0, 1, &p->set, 0, NULL);
    vkCmdPushConstants(commands, p->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof job, job);
    vkCmdDispatch(commands, (size[0] * size[1] * size[2] + 63) / 64, 1, 1);
    finish(m, commands);
}

static void copy_to_bytes(const struct machine *m, const struct shape *s, const struct target *t)
{
    int is_3d = s->type == VK_IMAGE_TYPE_3D;
    VkCommandBuffer commands = begin(m);
    VkBufferImageCopy region = {
        .imageSubresource = {VK_IMAGE_ASPECT_COLOR_BIT, s->level, 0, is_3d ? 1 : s->size[2]},
        .imageExtent = {s->size[0], s->size[1], is_3d ? s->size[2] : 1}};
    vkCmdCopyImageToBuffer(commands, t->image, VK_IMAGE_LAYOUT_GENERAL, m->bytes.buffer, 1, &region);
    finish(m, commands);
}

/* The first texel that differs; -1: none. */
static int bytes_differ(const struct machine *m, const struct format *f, const struct shape *s, const struct target *t)
{
    uint32_t nbytes = nbytes_of(f), *in = m->in.mapped, count = s->size[0] * s->size[1] * s->size[2];
    const uint8_t *bytes = m->bytes.mapped;
    for (uint32_t i = 0; i < count; i++) {
        uint8_t wanted[16] = {0};
        pack(f, in + 4 * i, wanted);
        const uint8_t *at = bytes + (size_t)i * nbytes;
        if (s->tiling == LINEAR)
            at = t->mapped + t->layout.offset + i / s->size[0] * t->layout.rowPitch + (size_t)(i % s->size[0]) * nbytes;
        if (memcmp(at, wanted, nbytes))
            return (int)i;
    }
    return -1;
}

static int loads_differ(const struct machine *m, const struct format *f, const struct shape *s, int mode)
{
    uint32_t *in = m->in.mapped, *out = m->out.mapped, count = s->size[0] * s->size[1] * s->size[2];
    int dims = s->view == VK_IMAGE_VIEW_TYPE_1D ? 1 : s->view == VK_IMAGE_VIEW_TYPE_2D || s->view == VK_IMAGE_VIEW_TYPE_CUBE ? 2 : 3;
    for (uint32_t i = 0; i < count; i++)
        for (int c = 0; c < 4; c++) {
            static const uint32_t nothing[4];
            uint32_t texel[4] = {in[4 * i], 0, 0, 0}, wanted = loaded(f, mode == OUTSIDE ? nothing : in + 4 * i, c);
            if (mode == ONE_CHANNEL)
                wanted = loaded(f, texel, c);
            if (mode == SIZE) {
                uint32_t size[4] = {s->size[0], s->size[1], s->size[2], 1};
                if (s->view == VK_IMAGE_VIEW_TYPE_1D_ARRAY) {
                    size[1] = size[2];
                    size[2] = 1;
                }
                float value = (float)(c == 3 || c < dims ? size[c] : 1);
                memcpy(&wanted, &value, 4);
                if (f->kind == UINT)
                    wanted = (uint32_t)value;
            }
            if (mode == OUTSIDE && s->texel_buffer && c == 3)
                continue; /* a buffer without robustBufferAccess2 may give anything there */
            if (out[4 * i + (uint32_t)c] != wanted && !(mode == OUTSIDE && c == 3 && f->bits[3] == 0 && out[4 * i + 3] == 0)) {
                fprintf(stderr, "texel %u channel %d: 0x%x, wanted 0x%x\n", i, c, out[4 * i + (uint32_t)c], wanted);
                return 1;
            }
        }
    return 0;
}

static int wrong(const struct format *f, const struct shape *s, const char *what)
{
    const char *tiling = s->tiling == LINEAR ? "linear" : "optimal";
    printf("wrong %s %s, %ux%ux%u, level %u of %u, %s: %s\n", f->name, s->shader, s->size[0], s->size[1], s->size[2],
           s->level, s->levels, tiling, what);
    return 0;
}

/* 1 right, 0 wrong, -1 the driver has no such image. */
static int judge(const struct machine *m, const struct pipeline *p, const struct format *f, const struct shape *s)
{
    struct target t = {0};
    uint32_t *in = m->in.mapped, *out = m->out.mapped, count = s->size[0] * s->size[1] * s->size[2];
    if (!(s->texel_buffer ? make_texel_buffer : make_image)(&m->app, f, s, &t))
        return -1;
    t.layout.rowPitch = s->texel_buffer ? s->size[0] * nbytes_of(f) : t.layout.rowPitch;
    bind_targets(m, p, &t);
    for (uint32_t i = 0; i < 4 * count; i++)
        in[i] = given(f, (int)(i % 4));
    dispatch(m, p, &t, s->size, STORE);
    int right = 1;
    if (s->tiling != LINEAR && m->copies)
        copy_to_bytes(m, s, &t);
    if ((s->tiling == LINEAR || m->copies) && bytes_differ(m, f, s, &t) >= 0)
        right = wrong(f, s, "the bytes");
    static const char *const modes[] = {"", "loads", "loads outside", "the size", "one channel"};
    for (int mode = LOAD; mode <= ONE_CHANNEL; mode++) {
        memset(out, 0xA5, 16 * count);
        dispatch(m, p, &t, s->size, mode);
        if (mode == ONE_CHANNEL)
            dispatch(m, p, &t, s->size, LOAD);
        if (loads_differ(m, f, s, mode))
            right = wrong(f, s, modes[mode]);
    }
    vkDestroyImageView(m->app.device, t.view, NULL); /* of none, nothing is done */
    vkDestroyImage(m->app.device, t.image, NULL);
    vkFreeMemory(m->app.device, t.memory, NULL);
    return right;
}

static int judge_atomics(const struct machine *m)
{
    static const struct format *r32ui = &formats[11];
    static const struct shape layers = {"atomics", VK_IMAGE_TYPE_2D, VK_IMAGE_VIEW_TYPE_2D_ARRAY, {8, 8, 5}, 1, 0, OPTIMAL, 0};
    const uint32_t count[3] = {1000, 1, 1};
    struct target t = {0};
    uint32_t *in = m->in.mapped, *out = m->out.mapped, sum[64] = {0}, most[64] = {0}, odd[64] = {0}, many[64] = {0}, sevens = 0;
    struct pipeline clear = make_pipeline(m, "image_2d_array_u", 0), p = make_pipeline(m, "atomics", 0);
    make_image(&m->app, r32ui, &layers, &t);
    bind_targets(m, &clear, &t);
    bind_targets(m, &p, &t);
    memset(in, 0, 16 * 320);
    dispatch(m, &clear, &t, layers.size, STORE);
    for (uint32_t i = 0; i < count[0]; i++) {
        uint32_t value = in[4 * i] = any(), at = i % 64;
        sum[at] += value;
        most[at] = value > most[at] ? value : most[at];
        odd[at] ^= value;
        many[at]++;
    }
    dispatch(m, &p, &t, count, 1);
    for (uint32_t i = 0; i < count[0]; i++)
        sevens += out[4 * i + 1] == 7;
    dispatch(m, &clear, &t, layers.size, LOAD);
    int right = sevens == count[0] - 1; /* the first exchange finds what was there */
    for (uint32_t at = 0; at < 64; at++)
        right &= out[4 * at] == sum[at] && out[4 * (64 + at)] == most[at] && out[4 * (128 + at)] == odd[at] &&
                 out[4 * (192 + at)] == many[at];
    return right ? 1 : wrong(r32ui, &layers, "atomics");
}

int main(int argc, char **argv)
{
    struct machine m = {0};
    VkPhysicalDeviceFeatures features = {.shaderStorageImageReadWithoutFormat = 1,
                                         .shaderStorageImageWriteWithoutFormat = 1,
                                         .shaderStorageImageExtendedFormats = 1};
    if (argc != 3 || (strcmp(argv[2], "gfx") && strcmp(argv[2], "compute"))) {
        fprintf(stderr, "usage: vk_image FOLDER gfx|compute\n");
        return 2;
    }
    m.folder = argv[1];
    m.copies = !strcmp(argv[2], "compute");
    open_device(&m.app, argv[2], &features);
    m.in = make_buffer(&m.app, 16 * MOST, VK_BUFFER_USAGE_STORAGE_BUFFER_BIT);
    m.out = make_buffer(&m.app, 16 * MOST, VK_BUFFER_USAGE_STORAGE_BUFFER_BIT);
    m.bytes = make_buffer(&m.app, 16 * MOST, VK_BUFFER_USAGE_TRANSFER_DST_BIT);
    m.fence = make_fence(&m.app);
    VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                    .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                                    .queueFamilyIndex = m.app.family};
    check(vkCreateCommandPool(m.app.device, &pool, NULL, &m.pool), "vkCreateCommandPool");
    VkDescriptorPoolSize sizes[3] = {{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 100},
                                     {VK_DESCRIPTOR_TYPE_STORAGE_IMAGE, 50},
                                     {VK_DESCRIPTOR_TYPE_STORAGE_TEXEL_BUFFER, 50}};
    VkDescriptorPoolCreateInfo descriptors = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO, .maxSets = 50, .poolSizeCount = 3, .pPoolSizes = sizes};
    check(vkCreateDescriptorPool(m.app.device, &descriptors, NULL, &m.descriptors), "vkCreateDescriptorPool");
    int cases = 1, right = judge_atomics(&m);
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        char name[64];
        snprintf(name, sizeof name, "%s_u", shapes[s].shader);
        struct pipeline floats = make_pipeline(&m, shapes[s].shader, shapes[s].texel_buffer);
        struct pipeline integer = make_pipeline(&m, name, shapes[s].texel_buffer);
        int large = shapes[s].size[0] * shapes[s].size[1] * shapes[s].size[2] > 4096; /* of those, a third of the formats */
        for (size_t f = 0; f < sizeof formats / sizeof *formats; f++) {
            if (large && f % 3 != s % 3)
                continue;
            int outcome = judge(&m, formats[f].kind == UINT ? &integer : &floats, &formats[f], &shapes[s]);
            cases += outcome >= 0;
            right += outcome == 1;
        }
    }
    const char *verdict = right == cases ? "right" : "wrong";
    printf("%s %d of %d cases of images on %s, %s queue\n", verdict, right, cases, m.app.properties.deviceName, argv[2]);
    return right != cases;
}
