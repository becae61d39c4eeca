/* A small Vulkan program: runs one compute shader of shaders/ on the first physical device and compares what comes back
 * with float64 arithmetic done here. It stands for any application: it knows nothing of the emulated GPU under the driver.
 *
 *   vk_compute FOLDER vecadd|sgemm|conv2d|reduce gfx|compute [SUBMISSIONS]
 *
 * gfx: a queue family that also draws; compute: one that only computes. Prints one line that begins with "right" or
 * "wrong"; exit codes: 0 right, 1 wrong or a Vulkan call failed, 2 usage, 3 no device or no such queue family.
 *
 * With SUBMISSIONS the same command buffer is submitted again so many times, each waited for, and judged again; a line for
 * each says what vkQueueSubmit took: ns, of those inside the emulated kernel's ioctls (0 without one), ioctls. */
#define _GNU_SOURCE 1 /* RTLD_DEFAULT */
#include <dlfcn.h>
#include <math.h>
#include <time.h>

#include "vk_app.h"

enum { BUFFERS = 3 };

struct problem {
    const char *name;
    uint32_t sizes[3]; /* push constants */
    uint32_t count[BUFFERS]; /* floats in each buffer */
    uint32_t groups[3];
    void (*reference)(const struct problem *p, float *const in[2], double *out, double *magnitude);
};

/* Each reference also gives the sum of |terms| of every output: what rounding errors are measured against. */
static void vecadd(const struct problem *p, float *const in[2], double *out, double *magnitude)
{
    for (uint32_t i = 0; i < p->sizes[0]; i++) {
        out[i] = (double)in[0][i] + in[1][i];
        magnitude[i] = fabs(in[0][i]) + fabs(in[1][i]);
    }
}

static void sgemm(const struct problem *p, float *const in[2], double *out, double *magnitude)
{
    uint32_t m = p->sizes[0], n = p->sizes[1], k = p->sizes[2];
    for (uint32_t row = 0; row < m; row++)
        for (uint32_t column = 0; column < n; column++) {
            double sum = 0, size = 0;
            for (uint32_t i = 0; i < k; i++) {
                double term = (double)in[0][row * k + i] * in[1][i * n + column];
                sum += term;
                size += fabs(term);
            }
            out[row * n + column] = sum;
            magnitude[row * n + column] = size;
        }
}

static void conv2d(const struct problem *p, float *const in[2], double *out, double *magnitude)
{
    int channels = (int)p->sizes[0], height = (int)p->sizes[1], width = (int)p->sizes[2];
    for (int at = 0; at < (int)p->count[2]; at++) {
        int o = at / (height * width), row = at / width % height, column = at % width;
        double sum = 0, size = 0;
        for (int tap = 0; tap < channels * 9; tap++) {
            int r = row + tap % 9 / 3 - 1, s = column + tap % 3 - 1;
            if (r < 0 || s < 0 || r >= height || s >= width)
                continue;
            double term = (double)in[0][(tap / 9 * height + r) * width + s] * in[1][o * channels * 9 + tap];
            sum += term;
            size += fabs(term);
        }
        out[at] = sum;
        magnitude[at] = size;
    }
}

static void reduce(const struct problem *p, float *const in[2], double *out, double *magnitude)
{
    for (uint32_t group = 0; group < p->count[2]; group++) {
        out[group] = magnitude[group] = 0;
        for (uint32_t i = group * 256; i < p->sizes[0] && i < (group + 1) * 256; i++) {
            out[group] += in[0][i];
            magnitude[group] += fabs(in[0][i]);
        }
    }
}

/* Sizes are no multiples of a group, so that edges count. */
static const struct problem problems[] = {
    {"vecadd", {1000}, {1000, 1000, 1000}, {16, 1, 1}, vecadd},
    {"sgemm", {70, 50, 61}, {70 * 61, 61 * 50, 70 * 50}, {4, 5, 1}, sgemm},
    {"conv2d", {5, 19, 23}, {5 * 19 * 23, 7 * 5 * 9, 7 * 19 * 23}, {3, 3, 7}, conv2d},
    {"reduce", {5000}, {5000, 1, 20}, {20, 1, 1}, reduce},
};

struct pipeline {
    VkPipeline pipeline;
    VkPipelineLayout layout;
    VkDescriptorSet set;
};

static struct pipeline make_pipeline(const struct app *app, VkShaderModule module, const struct buffer *buffers)
{
    struct pipeline made;
    VkDescriptorSetLayoutBinding bindings[BUFFERS] = {0};
    for (uint32_t i = 0; i < BUFFERS; i++)
        bindings[i] = (VkDescriptorSetLayoutBinding){.binding = i,
                                                     .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                                     .descriptorCount = 1,
                                                     .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT};
    VkDescriptorSetLayoutCreateInfo set_info = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
                                                .bindingCount = BUFFERS,
                                                .pBindings = bindings};
    VkDescriptorSetLayout set_layout;
    check(vkCreateDescriptorSetLayout(app->device, &set_info, NULL, &set_layout), "vkCreateDescriptorSetLayout");
    VkPushConstantRange range = {.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT, .size = 12};
    VkPipelineLayoutCreateInfo layout = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                         .setLayoutCount = 1,
                                         .pSetLayouts = &set_layout,
                                         .pushConstantRangeCount = 1,
                                         .pPushConstantRanges = &range};
    check(vkCreatePipelineLayout(app->device, &layout, NULL, &made.layout), "vkCreatePipelineLayout");
    VkComputePipelineCreateInfo info = {.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
                                        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                                                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                                                  .module = module,
                                                  .pName = "main"},
                                        .layout = made.layout};
    check(vkCreateComputePipelines(app->device, VK_NULL_HANDLE, 1, &info, NULL, &made.pipeline),
          "vkCreateComputePipelines");
    VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, BUFFERS};
    VkDescriptorPoolCreateInfo pool_info = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
                                            .maxSets = 1,
                                            .poolSizeCount = 1,
                                            .pPoolSizes = &size};
    VkDescriptorPool pool;
    check(vkCreateDescriptorPool(app->device, &pool_info, NULL, &pool), "vkCreateDescriptorPool");
    VkDescriptorSetAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
                                            .descriptorPool = pool,
                                            .descriptorSetCount = 1,
                                            .pSetLayouts = &set_layout};
    check(vkAllocateDescriptorSets(app->device, &allocate, &made.set), "vkAllocateDescriptorSets");
    for (uint32_t i = 0; i < BUFFERS; i++) {
        VkDescriptorBufferInfo buffer = {buffers[i].buffer, 0, VK_WHOLE_SIZE};
        VkWriteDescriptorSet write = {.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                                      .dstSet = made.set,
                                      .dstBinding = i,
                                      .descriptorCount = 1,
                                      .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                      .pBufferInfo = &buffer};
        vkUpdateDescriptorSets(app->device, 1, &write, 0, NULL);
    }
    return made;
}

static VkCommandBuffer record(const struct app *app, const struct pipeline *made, const struct problem *p)
{
    VkCommandPoolCreateInfo pool_info = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                         .queueFamilyIndex = app->family};
    VkCommandPool pool;
    check(vkCreateCommandPool(app->device, &pool_info, NULL, &pool), "vkCreateCommandPool");
    VkCommandBufferAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                            .commandPool = pool,
                                            .commandBufferCount = 1};
    VkCommandBuffer commands;
    check(vkAllocateCommandBuffers(app->device, &allocate, &commands), "vkAllocateCommandBuffers");
    /* No one-time submit, no simultaneous use: it is submitted again when it has ended. */
    VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    check(vkBeginCommandBuffer(commands, &begin), "vkBeginCommandBuffer");
    vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, made->pipeline);
    vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, made->layout, 0, 1, &made->set, 0, NULL);
    vkCmdPushConstants(commands, made->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof p->sizes, p->sizes);
    vkCmdDispatch(commands, p->groups[0], p->groups[1], p->groups[2]);
    VkMemoryBarrier barrier = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                               .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT,
                               .dstAccessMask = VK_ACCESS_HOST_READ_BIT};
    vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier, 0,
                         NULL, 0, NULL);
    check(vkEndCommandBuffer(commands), "vkEndCommandBuffer");
    return commands;
}

/* As native/include/sp_emu.h has it: what has gone through the emulated kernel so far. */
struct seam {
    uint64_t ioctls, submissions, ns;
};

static void no_seam(struct seam *out)
{
    memset(out, 0, sizeof *out);
}

static uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void time_submissions(const struct app *app, const VkCommandBuffer *commands, VkFence fence, long count)
{
    void (*look)(struct seam *) = no_seam;
    void *found = dlsym(RTLD_DEFAULT, "sparkle_emu_seam");
    if (found)
        memcpy(&look, &found, sizeof look);
    for (long i = 0; i < count; i++) {
        struct seam before, after;
        check(vkResetFences(app->device, 1, &fence), "vkResetFences");
        look(&before);
        uint64_t began = clock_ns();
        submit(app, commands, fence);
        uint64_t ended = clock_ns();
        look(&after);
        await(app, fence);
        printf("%llu %llu %llu\n", (unsigned long long)(ended - began), (unsigned long long)(after.ns - before.ns),
               (unsigned long long)(after.ioctls - before.ioctls));
    }
}

/* The largest error in units of eps x the sum of |terms|: of the order of sqrt(terms), and at most their number, for any
 * order of summation that adds nothing to the problem. */
static double compare(const struct problem *p, float *const mapped[])
{
    double *out = calloc(p->count[2], sizeof *out), *magnitude = calloc(p->count[2], sizeof *out), worst = 0;
    if (!out || !magnitude)
        exit(1);
    p->reference(p, mapped, out, magnitude);
    for (uint32_t i = 0; i < p->count[2]; i++) {
        double error = fabs(mapped[2][i] - out[i]) / (magnitude[i] * 0x1p-24 + 0x1p-126);
        if (!(error <= worst)) /* a NaN must not pass */
            worst = isnan(error) ? INFINITY : error;
    }
    free(out);
    free(magnitude);
    return worst;
}

int main(int argc, char **argv)
{
    const struct problem *p = NULL;
    for (size_t i = 0; (argc == 4 || argc == 5) && i < sizeof problems / sizeof *problems; i++)
        if (!strcmp(argv[2], problems[i].name))
            p = &problems[i];
    if (!p || (strcmp(argv[3], "gfx") && strcmp(argv[3], "compute"))) {
        fprintf(stderr, "usage: vk_compute FOLDER vecadd|sgemm|conv2d|reduce gfx|compute [SUBMISSIONS]\n");
        return 2;
    }
    struct app app;
    struct buffer buffers[BUFFERS];
    float *mapped[BUFFERS];
    open_device(&app, argv[3], NULL);
    for (int i = 0; i < BUFFERS; i++) {
        buffers[i] = make_buffer(&app, p->count[i] * sizeof(float), VK_BUFFER_USAGE_STORAGE_BUFFER_BIT);
        mapped[i] = buffers[i].mapped;
    }
    uint32_t state = 12345;
    for (int i = 0; i < BUFFERS; i++)
        for (uint32_t at = 0; at < p->count[i]; at++) {
            state = state * 1664525u + 1013904223u;
            mapped[i][at] = i == 2 ? NAN : (float)(state >> 8) * 0x1p-23f - 1;
        }
    struct pipeline made = make_pipeline(&app, load_shader(&app, argv[1], p->name), buffers);
    VkCommandBuffer commands = record(&app, &made, p);
    VkFence fence = make_fence(&app);
    submit(&app, &commands, fence);
    await(&app, fence);
    double worst = compare(p, mapped);
    if (argc == 5 && worst <= 8) {
        for (uint32_t at = 0; at < p->count[2]; at++)
            mapped[2][at] = NAN;
        time_submissions(&app, &commands, fence, strtol(argv[4], NULL, 10));
        worst = compare(p, mapped);
    }
    int right = worst <= 8;
    printf("%s %s on %s, %s queue: largest error %.2f half ulps of the sum of |terms|\n", right ? "right" : "wrong", p->name,
           app.properties.deviceName, argv[3], worst);
    return !right;
}
