/* Asks the CUDA driver what it reports about itself. The probe calls cuInit, makes no context and
 * takes no device memory. */
#include "cuda.h"

#include <stdio.h>
#include <string.h>

/* CUdevice_attribute */
enum { COMPUTE_CAPABILITY_MAJOR = 75, COMPUTE_CAPABILITY_MINOR = 76 };

static void describe(struct sp_text *text, int ordinal)
{
    int device = 0, major = 0, minor = 0, rc;
    char name[256] = "";
    size_t nbytes = 0;

    if ((rc = sp_cuDeviceGet(&device, ordinal)) != 0 || (rc = sp_cuDeviceGetName(name, sizeof name, device)) != 0) {
        sp_text_add(text, "%d: error %d\n", ordinal, rc);
        return;
    }
    name[sizeof name - 1] = '\0';
    sp_text_add(text, "%d: %s", ordinal, name);
    if (sp_cuDeviceGetAttribute(&major, COMPUTE_CAPABILITY_MAJOR, device) == 0 &&
        sp_cuDeviceGetAttribute(&minor, COMPUTE_CAPABILITY_MINOR, device) == 0)
        sp_text_add(text, ", compute capability %d.%d", major, minor);
    if (sp_cuDeviceTotalMem_v2(&nbytes, device) == 0)
        sp_text_add(text, ", %zu MiB", nbytes >> 20);
    sp_text_add(text, "\n");
}

int sp_dl_probe_cuda(const char *paths, struct sp_dl_cuda *out)
{
    memset(out, 0, sizeof *out);
    struct sp_text report = sp_text_in(out->report, sizeof out->report);
    struct sp_text devices = sp_text_in(out->devices, sizeof out->devices);
    const char *name = NULL;

    int rc = sp_cuda_load(paths, &report, out->library, sizeof out->library);
    if (rc != 0)
        return rc;
    sp_cuDriverGetVersion(&out->driver_version); /* works without a device, unlike cuInit */
    out->init_result = sp_cuInit(0);
    if (sp_cuGetErrorName(out->init_result, &name) == 0 && name != NULL)
        snprintf(out->init_name, sizeof out->init_name, "%s", name);
    if (out->init_result == 0)
        out->init_result = sp_cuDeviceGetCount(&out->device_count);
    if (out->init_result != 0)
        out->device_count = 0;
    for (int i = 0; i < out->device_count; i++)
        describe(&devices, i);
    return 0;
}
