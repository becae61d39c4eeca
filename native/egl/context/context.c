/* Lists EGL's devices, creates a GL context on one of them, and reads the limits of that context.
 *
 * The EGL display is never terminated, because all libraries of the process share it. A listed
 * device may have no driver. Only a successful context shows that a device works. */
#include "context.h"
#include "core/base.h"
#include "dl/egl.h"
#include "dl/gl.h"
#include "messages.h"
#include "names.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int has_word(const char *words, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = words; at && (at = strstr(at, word)) != NULL; at += length)
        if ((at == words || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
            return 1;
    return 0;
}

static int32_t list_devices(void *devices[16])
{
    int32_t count = 0;
    const char *extensions = sp_eglQueryString(NULL, EGL_EXTENSIONS);
    /* Only the extension string is reliable: eglGetProcAddress returns pointers for unknown names
     * too. */
    if (!has_word(extensions, "EGL_EXT_device_enumeration") && !has_word(extensions, "EGL_EXT_device_base"))
        return 0;
    if (!has_word(extensions, "EGL_EXT_platform_device") || sp_eglQueryDevicesEXT(16, devices, &count) != EGL_TRUE)
        return 0;
    return count < 16 ? count : 16;
}

static void describe(struct sp_egl_node *node, int32_t index, void *device)
{
    const char *extensions = sp_eglQueryDeviceStringEXT(device, EGL_EXTENSIONS);
    const char *file = NULL;
    if (has_word(extensions, "EGL_EXT_device_drm_render_node"))
        file = sp_eglQueryDeviceStringEXT(device, EGL_DRM_RENDER_NODE_FILE_EXT);
    if (!file && has_word(extensions, "EGL_EXT_device_drm"))
        file = sp_eglQueryDeviceStringEXT(device, EGL_DRM_DEVICE_FILE_EXT);
    node->index = index;
    node->software = (uint32_t)has_word(extensions, "EGL_MESA_device_software");
    snprintf(node->node, sizeof node->node, "%s", file ? file : "");
    snprintf(node->extensions, sizeof node->extensions, "%s", extensions ? extensions : "");
}

/* Identifies the process that first initialised EGL; 0: none has. The value is 1 + that process's
 * sp_fork_generation(), which counts forks. The driver's threads exist only in that process. In a
 * forked child the first dispatch would wait for these threads for ever (llvmpipe does). */
static _Atomic uint32_t home;

static int is_forked_child(void)
{
    uint32_t at = atomic_load(&home);
    return at && at != sp_fork_generation() + 1;
}

int sp_egl_list(struct sp_egl_nodes *out)
{
    memset(out, 0, sizeof *out);
    struct sp_text report = sp_text_in(out->report, sizeof out->report);
    if (is_forked_child()) {
        sp_text_add(&report, "this process was forked after EGL was initialised, and the driver's threads exist only in the parent");
        return -ECHILD;
    }
    int rc = sp_egl_library(NULL, &report, out->library, sizeof out->library);
    if (rc)
        return rc;
    void *devices[16];
    int32_t count = list_devices(devices);
    for (int32_t i = 0; i < count; i++)
        describe(&out->node[out->count++], i, devices[i]);
    const char *extensions = sp_eglQueryString(NULL, EGL_EXTENSIONS);
    sp_text_add(&report, "%d device(s) listed by EGL_EXT_device_enumeration\n", count);
    if (has_word(extensions, "EGL_MESA_platform_surfaceless"))
        out->node[out->count++].index = -1;
    else
        sp_text_add(&report, "no EGL_MESA_platform_surfaceless\n");
    return 0;
}

/* Returns the name of EGL's last error. */
static const char *egl_error(void)
{
    static const char *const names[] = {
        "EGL_SUCCESS",    "EGL_NOT_INITIALIZED", "EGL_BAD_ACCESS",          "EGL_BAD_ALLOC",   "EGL_BAD_ATTRIBUTE",
        "EGL_BAD_CONFIG", "EGL_BAD_CONTEXT",     "EGL_BAD_CURRENT_SURFACE", "EGL_BAD_DISPLAY", "EGL_BAD_MATCH"};
    uint32_t code = (uint32_t)sp_eglGetError() - 0x3000;
    return code < sizeof names / sizeof names[0] ? names[code] : "another EGL error";
}

static void *display_of(int32_t index, struct sp_text *why)
{
    void *devices[16];
    void *display = NULL;
    if (index < 0) {
        display = sp_eglGetPlatformDisplayEXT(EGL_PLATFORM_SURFACELESS_MESA, NULL, NULL);
    } else {
        if (index >= list_devices(devices)) {
            sp_text_add(why, "EGL lists no device %d", index);
            return NULL;
        }
        display = sp_eglGetPlatformDisplayEXT(EGL_PLATFORM_DEVICE_EXT, devices[index], NULL);
    }
    if (!display)
        sp_text_add(why, "eglGetPlatformDisplay failed (%s)", egl_error());
    return display;
}

/* Creates a context that reports its loss. If EGL or the driver cannot make such a context, creates
 * a context that does not report its loss. Returns NULL if neither works. */
static void *create(struct sp_egl *dev, uint32_t api, int major, int minor, const char *extensions)
{
    int32_t a[16];
    int n = 0;
    a[n++] = EGL_CONTEXT_MAJOR_VERSION;
    a[n++] = major;
    a[n++] = EGL_CONTEXT_MINOR_VERSION;
    a[n++] = minor;
    if (api == EGL_OPENGL_API) {
        a[n++] = EGL_CONTEXT_OPENGL_PROFILE_MASK;
        a[n++] = EGL_CONTEXT_OPENGL_CORE_PROFILE_BIT;
    }
    a[n] = EGL_NONE;
    if (sp_eglBindAPI(api) != EGL_TRUE)
        return NULL;
    if (has_word(extensions, "EGL_EXT_create_context_robustness")) {
        a[n] = api == EGL_OPENGL_API ? EGL_CONTEXT_RESET_STRATEGY : EGL_CONTEXT_RESET_STRATEGY_EXT;
        a[n + 1] = EGL_LOSE_CONTEXT_ON_RESET;
        a[n + 2] = EGL_NONE;
        void *context = sp_eglCreateContext(dev->display, NULL, NULL, a);
        if (context) {
            dev->info.flags |= SP_EGL_RESET;
            return context;
        }
        a[n] = EGL_NONE;
        sp_eglGetError();
    }
    return sp_eglCreateContext(dev->display, NULL, NULL, a);
}

static int current(struct sp_egl *dev, uint32_t api, int major, int minor, const char *extensions, struct sp_text *why)
{
    const char *name = api == EGL_OPENGL_API ? "OpenGL" : "OpenGL ES";
    dev->info.flags &= ~(uint32_t)SP_EGL_RESET;
    dev->context = create(dev, api, major, minor, extensions);
    if (!dev->context) {
        sp_text_add(why, "no %s %d.%d context (%s); ", name, major, minor, egl_error());
        return -ENOTSUP;
    }
    if (sp_eglMakeCurrent(dev->display, NULL, NULL, dev->context) != EGL_TRUE) {
        sp_text_add(why, "the %s context cannot be made current (%s); ", name, egl_error());
        sp_eglDestroyContext(dev->display, dev->context);
        return -ENODEV;
    }
    sp_gl_load();
    int32_t have_major = 0, have_minor = 0;
    sp_glGetIntegerv(GL_MAJOR_VERSION, &have_major);
    sp_glGetIntegerv(GL_MINOR_VERSION, &have_minor);
    dev->info.version = have_major * 10 + have_minor;
    if (dev->info.version >= major * 10 + minor)
        return 0;
    sp_text_add(why, "%s %d.%d is too old, expected %d.%d or later; ", name, have_major, have_minor, major, minor);
    sp_egl_context_drop(dev);
    return -ENOTSUP;
}

static int has_gl(const char *name)
{
    int32_t count = 0;
    sp_glGetIntegerv(GL_NUM_EXTENSIONS, &count);
    for (int32_t i = 0; i < count; i++) {
        const char *extension = sp_glGetStringi(GL_EXTENSIONS, (uint32_t)i);
        if (extension && strcmp(extension, name) == 0)
            return 1;
    }
    return 0;
}

static uint32_t limit(uint32_t name)
{
    int32_t value = 0;
    sp_glGetIntegerv(name, &value);
    return value > 0 ? (uint32_t)value : 0;
}

static void read_features(struct sp_egl *dev)
{
    struct sp_egl_info *info = &dev->info;
    int es = sp_egl_is(dev, SP_EGL_ES);
    if (es ? has_gl("GL_EXT_buffer_storage") : info->version >= 44 || has_gl("GL_ARB_buffer_storage"))
        info->flags |= SP_EGL_PERSISTENT;
    if (!es && (info->version >= 40 || has_gl("GL_ARB_gpu_shader_fp64")) && has_gl("GL_ARB_gpu_shader_fp64"))
        info->flags |= SP_EGL_F64;
    if (!es && has_gl("GL_ARB_gpu_shader_int64"))
        info->flags |= SP_EGL_I64;
    if (!es && (info->version >= 46 || has_gl("GL_ARB_gl_spirv")))
        info->flags |= SP_EGL_SPIRV;
    if (!es || has_gl("GL_EXT_disjoint_timer_query"))
        info->flags |= SP_EGL_TIMER;
    if (limit(GL_NUM_PROGRAM_BINARY_FORMATS))
        info->flags |= SP_EGL_BINARIES;
    if (!has_gl(es ? "GL_EXT_robustness" : "GL_ARB_robustness") && !has_gl("GL_KHR_robustness"))
        info->flags &= ~(uint32_t)SP_EGL_RESET;
    if (has_gl("GL_NVX_gpu_memory_info"))
        info->memory_nbytes = (uint64_t)limit(GL_GPU_MEMORY_INFO_DEDICATED_VIDMEM_NVX) << 10;
    else if (has_gl("GL_ATI_meminfo")) {
        int32_t free_kib[4] = {0};
        sp_glGetIntegerv(GL_TEXTURE_FREE_MEMORY_ATI, free_kib);
        info->memory_nbytes = (uint64_t)(uint32_t)free_kib[0] << 10;
    }
}

static void copy_text(char *out, size_t capacity, uint32_t name)
{
    const char *text = sp_glGetString(name);
    snprintf(out, capacity, "%s", text ? text : "");
}

static void read_limits(struct sp_egl *dev)
{
    struct sp_egl_info *info = &dev->info;
    for (uint32_t i = 0; i < 3; i++) {
        int32_t v = 0;
        sp_glGetIntegeri_v(GL_MAX_COMPUTE_WORK_GROUP_COUNT, i, &v);
        info->max_groups[i] = v < 0 ? INT32_MAX : (uint32_t)v;
        v = 0;
        sp_glGetIntegeri_v(GL_MAX_COMPUTE_WORK_GROUP_SIZE, i, &v);
        info->max_group_size[i] = (uint32_t)v;
    }
    info->max_invocations = limit(GL_MAX_COMPUTE_WORK_GROUP_INVOCATIONS);
    info->max_shared_nbytes = limit(GL_MAX_COMPUTE_SHARED_MEMORY_SIZE);
    info->max_bindings = limit(GL_MAX_SHADER_STORAGE_BUFFER_BINDINGS);
    if (info->max_bindings > SP_EGL_BINDINGS)
        info->max_bindings = SP_EGL_BINDINGS;
    info->max_blocks = limit(GL_MAX_COMPUTE_SHADER_STORAGE_BLOCKS);
    info->offset_alignment = limit(GL_SHADER_STORAGE_BUFFER_OFFSET_ALIGNMENT);
    if (info->offset_alignment == 0)
        info->offset_alignment = 256;
    int64_t block = 0;
    sp_glGetInteger64v(GL_MAX_SHADER_STORAGE_BLOCK_SIZE, &block);
    info->max_block_nbytes = block > 0 ? (uint64_t)block : 1u << 27;
    copy_text(info->vendor, sizeof info->vendor, GL_VENDOR);
    copy_text(info->renderer, sizeof info->renderer, GL_RENDERER);
    copy_text(info->version_text, sizeof info->version_text, GL_VERSION);
    /* The surfaceless platform names no device. On that platform only the renderer's name shows
     * software rendering. */
    if (strstr(info->renderer, "llvmpipe") || strstr(info->renderer, "softpipe") || strstr(info->renderer, "SWR"))
        info->flags |= SP_EGL_SOFTWARE;
}

int sp_egl_context_make(struct sp_egl *dev, char *why_text, size_t why_nbytes)
{
    struct sp_text why = sp_text_in(why_text, why_nbytes);
    int32_t major = 0, minor = 0;
    uint32_t nowhere = 0;
    atomic_compare_exchange_strong(&home, &nowhere, sp_fork_generation() + 1);
    if (!(dev->display = display_of(dev->index, &why)))
        return -ENODEV;
    if (sp_eglInitialize(dev->display, &major, &minor) != EGL_TRUE) {
        sp_text_add(&why, "eglInitialize failed (%s): the device has no driver", egl_error());
        return -ENODEV;
    }
    const char *extensions = sp_eglQueryString(dev->display, EGL_EXTENSIONS);
    if (!has_word(extensions, "EGL_KHR_surfaceless_context")) {
        sp_text_add(&why, "EGL %d.%d without EGL_KHR_surfaceless_context", major, minor);
        return -ENOTSUP;
    }
    int rc = current(dev, EGL_OPENGL_API, 4, 3, extensions, &why);
    if (rc) {
        rc = current(dev, EGL_OPENGL_ES_API, 3, 1, extensions, &why);
        if (rc)
            return rc;
        dev->info.flags |= SP_EGL_ES;
    }
    read_features(dev);
    read_limits(dev);
    sp_egl_messages_start(dev, sp_egl_is(dev, SP_EGL_ES));
    why_text[0] = '\0';
    return 0;
}

void sp_egl_context_drop(struct sp_egl *dev)
{
    sp_eglMakeCurrent(dev->display, NULL, NULL, NULL);
    sp_eglDestroyContext(dev->display, dev->context);
    sp_eglReleaseThread();
    dev->context = NULL;
}
