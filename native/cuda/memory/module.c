/* Modules: a module is a loaded image. All kernels of one image share a module: without the
 * driver's compile cache, each load of PTX would compile it again. */
#include "module.h"
#include "cuda/device/context.h"
#include "cuda/device/lost.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOG_NBYTES = 8192 };

struct sp_cuda_module {
    /* next module of the device; modules_lock guards this member and `kernels` */
    struct sp_cuda_module *next;
    uint32_t kernels;
    void *handle;
    size_t nbytes;
    unsigned char image[]; /* a copy of the image, by which the same image is recognised */
};

static void words(char *out, size_t nbytes, const char *log)
{
    char said[1024] = "";
    sp_cuda_why(said, sizeof said - 1);
    snprintf(out, nbytes, "%s%s%s", said, *log ? "\n" : "", log);
}

static int load(struct sp_cuda *dev, const void *image, void **handle, char *why, size_t why_nbytes)
{
    char *log = calloc(1, LOG_NBYTES);
    if (!log)
        return -ENOMEM;
    int options[] = {CU_JIT_ERROR_LOG, CU_JIT_ERROR_LOG_NBYTES};
    /* The driver takes each option value as a void *, so the size of the log is cast to one. */
    void *values[] = {log, (void *)(uintptr_t)LOG_NBYTES};
    int result = sp_cuModuleLoadDataEx(handle, image, 2, options, values);
    int rc = sp_cuda_rc(dev, "cuModuleLoadDataEx", result);
    log[LOG_NBYTES - 1] = '\0';
    if (rc)
        words(why, why_nbytes, log);
    free(log);
    /* Some drivers return CU_INVALID_VALUE for bytes that are not an image. */
    return rc == -EINVAL ? -ENOEXEC : rc;
}

static int load_new(struct sp_cuda *dev, const void *image, size_t nbytes, char *why, size_t why_nbytes,
                    struct sp_cuda_module **out)
{
    struct sp_cuda_module *m = calloc(1, sizeof *m + nbytes);
    if (!m)
        return -ENOMEM;
    int rc = load(dev, image, &m->handle, why, why_nbytes);
    if (rc) {
        free(m);
        return rc;
    }
    memcpy(m->image, image, nbytes);
    m->nbytes = nbytes;
    m->next = dev->modules;
    *out = dev->modules = m;
    return 0;
}

/* Returns the module of an image. Loads the image unless another kernel of the device uses its
 * module. Holds modules_lock during the load, so that a second kernel of the image waits for the
 * module instead of loading another. */
int sp_cuda_module_take(struct sp_cuda *dev, const void *image, size_t nbytes, char *why, size_t why_nbytes,
                        struct sp_cuda_module **out)
{
    int rc = 0;
    pthread_mutex_lock(&dev->modules_lock);
    struct sp_cuda_module *m = dev->modules;
    while (m && (m->nbytes != nbytes || memcmp(m->image, image, nbytes) != 0))
        m = m->next;
    if (!m)
        rc = load_new(dev, image, nbytes, why, why_nbytes, &m);
    if (rc == 0) {
        m->kernels++;
        *out = m;
    }
    pthread_mutex_unlock(&dev->modules_lock);
    return rc;
}

void *sp_cuda_module_handle(const struct sp_cuda_module *m)
{
    return m->handle;
}

void sp_cuda_module_give(struct sp_cuda *dev, struct sp_cuda_module *m)
{
    pthread_mutex_lock(&dev->modules_lock);
    int last = --m->kernels == 0;
    if (last) {
        struct sp_cuda_module **at = &dev->modules;
        while (*at != m)
            at = &(*at)->next;
        *at = m->next;
    }
    pthread_mutex_unlock(&dev->modules_lock);
    if (!last)
        return;
    if (sp_cuda_enter(dev) == 0)
        sp_cuModuleUnload(m->handle);
    free(m);
}
