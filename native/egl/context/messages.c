/* Handles reports of the GL driver. KHR_debug messages go to a log that Python fetches. Errors
 * become the error text of the running job. This file also checks whether the context is lost. */
#include "messages.h"
#include "core/base.h"
#include "dl/gl.h"
#include "names.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void sp_egl_say(struct sp_egl *dev, const char *format, ...)
{
    char line[512];
    va_list list;
    va_start(list, format);
    int length = vsnprintf(line, sizeof line, format, list);
    va_end(list);
    if (length < 0)
        return;
    size_t nbytes = (size_t)length < sizeof line ? (size_t)length : sizeof line - 1;
    while (nbytes && (line[nbytes - 1] == '\n' || line[nbytes - 1] == ' '))
        nbytes--;
    pthread_mutex_lock(&dev->log_lock);
    /* The log keeps the first messages, because these matter most. A later message that does not
     * fit is dropped. */
    if (dev->log_used + nbytes + 1 <= sizeof dev->log) {
        memcpy(dev->log + dev->log_used, line, nbytes);
        dev->log_used += nbytes;
        dev->log[dev->log_used++] = '\n';
    }
    pthread_mutex_unlock(&dev->log_lock);
}

size_t sp_egl_messages(struct sp_egl *dev, char *out, size_t capacity)
{
    if (!sp_device_usable(&dev->common))
        return 0;
    pthread_mutex_lock(&dev->log_lock);
    size_t nbytes = dev->log_used < capacity ? dev->log_used : capacity;
    memcpy(out, dev->log, nbytes);
    dev->log_used = 0;
    pthread_mutex_unlock(&dev->log_lock);
    return nbytes;
}

static void received(uint32_t source, uint32_t type, uint32_t id, uint32_t severity, int32_t length,
                     const char *message, const void *context)
{
    struct sp_egl *dev = (struct sp_egl *)(uintptr_t)context;
    int error = type == GL_DEBUG_TYPE_ERROR;
    (void)source;
    (void)length;
    if (severity == GL_DEBUG_SEVERITY_NOTIFICATION && !error)
        return;
    sp_egl_say(dev, "%s: %s (%u)", error ? "error" : "warning", message, (unsigned)id);
    if (error && !dev->error[0])
        snprintf(dev->error, sizeof dev->error, "%s", message);
}

void sp_egl_messages_start(struct sp_egl *dev, int khr_suffix)
{
    if (!khr_suffix)
        sp_glDebugMessageCallback(received, dev);
    else if (dev->info.version >= 32)
        sp_glDebugMessageCallback(received, dev);
    else
        return;
    sp_glEnable(GL_DEBUG_OUTPUT);
    sp_glEnable(GL_DEBUG_OUTPUT_SYNCHRONOUS);
}

int sp_egl_context_lost(struct sp_egl *dev)
{
    if (atomic_load_explicit(&dev->common.lost, memory_order_relaxed))
        return 1;
    if (!sp_egl_is(dev, SP_EGL_RESET))
        return 0;
    uint32_t status;
    if (!sp_egl_is(dev, SP_EGL_ES))
        status = sp_glGetGraphicsResetStatus();
    else
        status = sp_glGetGraphicsResetStatusEXT();
    if (status == GL_NO_ERROR)
        return 0;
    sp_egl_say(dev, "error: the context is lost (reset status 0x%x)", (unsigned)status);
    atomic_store(&dev->common.lost, 1);
    return 1;
}

const char *sp_egl_complaint(struct sp_egl *dev, int ask)
{
    static const char *const names[] = {"GL_INVALID_ENUM",    "GL_INVALID_VALUE",   "GL_INVALID_OPERATION",
                                        "GL_STACK_OVERFLOW",  "GL_STACK_UNDERFLOW", "GL_OUT_OF_MEMORY",
                                        "GL_INVALID_FRAMEBUFFER_OPERATION", "GL_CONTEXT_LOST"};
    uint32_t code = ask ? sp_glGetError() : GL_NO_ERROR;
    if (code == GL_CONTEXT_LOST)
        sp_egl_context_lost(dev);
    if (code != GL_NO_ERROR && !dev->error[0]) {
        const char *name = code - 0x500u < 8 ? names[code - 0x500u] : "unknown GL error";
        snprintf(dev->error, sizeof dev->error, "%s", name);
    }
    return dev->error[0] ? dev->error : NULL;
}
