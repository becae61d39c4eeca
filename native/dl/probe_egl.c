/* Asks EGL what it reports before a display is initialised: client version, extensions, and
 * devices. A listed device may still refuse a context; only the egl backend can tell. */
#include "egl.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Constants of EGL 1.5, EGL_EXT_device_query, EGL_EXT_device_drm and
 * EGL_EXT_device_drm_render_node. */
enum { EGL_VERSION = 0x3054, EGL_EXTENSIONS = 0x3055, EGL_DRM_DEVICE_FILE = 0x3233, EGL_DRM_RENDER_NODE_FILE = 0x3377 };
enum { EGL_TRUE = 1, MAX_DEVICES = 64 };

static int has_word(const char *words, const char *word)
{
    size_t length = strlen(word);

    for (const char *at = words; at != NULL && (at = strstr(at, word)) != NULL; at += length)
        if ((at == words || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
            return 1;
    return 0;
}

static void describe(struct sp_text *text, int index, void *device)
{
    const char *extensions = sp_eglQueryDeviceStringEXT(device, EGL_EXTENSIONS);
    const char *node = NULL;

    if (has_word(extensions, "EGL_EXT_device_drm_render_node"))
        node = sp_eglQueryDeviceStringEXT(device, EGL_DRM_RENDER_NODE_FILE);
    if (node == NULL && has_word(extensions, "EGL_EXT_device_drm"))
        node = sp_eglQueryDeviceStringEXT(device, EGL_DRM_DEVICE_FILE);
    if (has_word(extensions, "EGL_MESA_device_software"))
        node = "software";
    sp_text_add(text, "%d: %s", index, node != NULL ? node : "no node");
    sp_text_add(text, " (%s)\n", extensions != NULL ? extensions : "no extensions");
}

static int32_t list_devices(const char *extensions, struct sp_text *text)
{
    void *devices[MAX_DEVICES];
    int32_t count = 0;

    /* eglGetProcAddress returns pointers even for unknown names, so only the extension string tells
     * whether a function exists. */
    if (!has_word(extensions, "EGL_EXT_device_enumeration") && !has_word(extensions, "EGL_EXT_device_base"))
        return -1;
    if (sp_eglQueryDevicesEXT(MAX_DEVICES, devices, &count) != EGL_TRUE)
        return -1;
    for (int32_t i = 0; i < count && i < MAX_DEVICES; i++)
        describe(text, i, devices[i]);
    return count;
}

int sp_dl_probe_egl(const char *paths, struct sp_dl_egl *out)
{
    memset(out, 0, sizeof *out);
    struct sp_text report = sp_text_in(out->report, sizeof out->report);
    struct sp_text devices = sp_text_in(out->devices, sizeof out->devices);
    struct sp_text names = sp_text_in(out->extensions, sizeof out->extensions);

    int rc = sp_egl_library(paths, &report, out->library, sizeof out->library);
    if (rc != 0)
        return rc;
    /* EGL before 1.5 returns NULL and sets an error */
    const char *version = sp_eglQueryString(NULL, EGL_VERSION);
    const char *extensions = sp_eglQueryString(NULL, EGL_EXTENSIONS);
    snprintf(out->version, sizeof out->version, "%s", version != NULL ? version : "");
    sp_text_add(&names, "%s", extensions != NULL ? extensions : "");
    out->device_count = list_devices(extensions, &devices);
    return 0;
}
