/* What the Vulkan programs here share: a device with one queue, memory that the host sees, shaders, submission. Errors end
 * the program: exit code 3 for no device or no such queue family, 1 for a Vulkan call that failed. */
#ifndef VK_APP_H
#define VK_APP_H
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vulkan/vulkan.h>

struct app {
    VkInstance instance;
    VkPhysicalDevice physical;
    VkDevice device;
    VkQueue queue;
    uint32_t family;
    VkPhysicalDeviceProperties properties;
};

static void check(VkResult result, const char *call)
{
    if (result == VK_SUCCESS)
        return;
    fprintf(stderr, "%s gave VkResult %d\n", call, (int)result);
    exit(1);
}

static int find_family(struct app *app, const char *kind)
{
    uint32_t count = 32;
    VkQueueFamilyProperties family[32];
    vkGetPhysicalDeviceQueueFamilyProperties(app->physical, &count, family);
    for (app->family = 0; app->family < count; app->family++) {
        VkQueueFlags flags = family[app->family].queueFlags;
        int draws = (flags & VK_QUEUE_GRAPHICS_BIT) != 0;
        if ((flags & VK_QUEUE_COMPUTE_BIT) && draws == !strcmp(kind, "gfx"))
            return 1;
    }
    return 0;
}

/* `features` may be NULL. */
static void open_device(struct app *app, const char *kind, const VkPhysicalDeviceFeatures *features)
{
    VkApplicationInfo about = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_1};
    VkInstanceCreateInfo instance = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &about};
    uint32_t count = 1;
    if (vkCreateInstance(&instance, NULL, &app->instance) != VK_SUCCESS ||
        vkEnumeratePhysicalDevices(app->instance, &count, &app->physical) < 0 || count == 0) {
        fprintf(stderr, "no Vulkan device\n");
        exit(3);
    }
    vkGetPhysicalDeviceProperties(app->physical, &app->properties);
    if (!find_family(app, kind)) {
        fprintf(stderr, "%s has no %s queue family\n", app->properties.deviceName, kind);
        exit(3);
    }
    float priority = 1;
    VkDeviceQueueCreateInfo queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                     .queueFamilyIndex = app->family,
                                     .queueCount = 1,
                                     .pQueuePriorities = &priority};
    VkDeviceCreateInfo device = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, .queueCreateInfoCount = 1, .pQueueCreateInfos = &queue,
        .pEnabledFeatures = features};
    check(vkCreateDevice(app->physical, &device, NULL, &app->device), "vkCreateDevice");
    vkGetDeviceQueue(app->device, app->family, 0, &app->queue);
}

static uint32_t host_memory_type(const struct app *app, uint32_t allowed)
{
    VkPhysicalDeviceMemoryProperties memory;
    VkMemoryPropertyFlags wanted = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    vkGetPhysicalDeviceMemoryProperties(app->physical, &memory);
    for (uint32_t i = 0; i < memory.memoryTypeCount; i++)
        if ((allowed & (1u << i)) && (memory.memoryTypes[i].propertyFlags & wanted) == wanted)
            return i;
    fprintf(stderr, "no host visible memory\n");
    exit(1);
}

struct buffer {
    VkBuffer buffer;
    void *mapped;
};

static struct buffer make_buffer(const struct app *app, VkDeviceSize nbytes, VkBufferUsageFlags usage)
{
    struct buffer made;
    VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, .size = nbytes, .usage = usage};
    check(vkCreateBuffer(app->device, &info, NULL, &made.buffer), "vkCreateBuffer");
    VkMemoryRequirements needs;
    vkGetBufferMemoryRequirements(app->device, made.buffer, &needs);
    VkMemoryAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                     .allocationSize = needs.size,
                                     .memoryTypeIndex = host_memory_type(app, needs.memoryTypeBits)};
    VkDeviceMemory memory;
    check(vkAllocateMemory(app->device, &allocate, NULL, &memory), "vkAllocateMemory");
    check(vkBindBufferMemory(app->device, made.buffer, memory, 0), "vkBindBufferMemory");
    check(vkMapMemory(app->device, memory, 0, VK_WHOLE_SIZE, 0, &made.mapped), "vkMapMemory");
    return made;
}

static VkShaderModule load_shader(const struct app *app, const char *folder, const char *name)
{
    char path[4096];
    static uint32_t code[65536];
    snprintf(path, sizeof path, "%s/%s.spv", folder, name);
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        exit(1);
    }
    size_t nbytes = fread(code, 1, sizeof code, file);
    fclose(file);
    VkShaderModuleCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .codeSize = nbytes, .pCode = code};
    VkShaderModule module;
    check(vkCreateShaderModule(app->device, &info, NULL, &module), "vkCreateShaderModule");
    return module;
}

static VkFence make_fence(const struct app *app)
{
    VkFenceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    VkFence fence;
    check(vkCreateFence(app->device, &info, NULL, &fence), "vkCreateFence");
    return fence;
}

static void submit(const struct app *app, const VkCommandBuffer *commands, VkFence fence)
{
    VkSubmitInfo submit = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1, .pCommandBuffers = commands};
    check(vkQueueSubmit(app->queue, 1, &submit, fence), "vkQueueSubmit");
}

static void await(const struct app *app, VkFence fence)
{
    check(vkWaitForFences(app->device, 1, &fence, VK_TRUE, UINT64_C(60000000000)), "vkWaitForFences");
}
#endif
