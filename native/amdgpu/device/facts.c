/* Queries the facts that a render node reports. */
#include "facts.h"
#include "core/base.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

static int ask(const struct sp_kmd_ops *ops, int fd, uint32_t request, void *arg)
{
    return sp_kmd_ioctl(ops, fd, request, arg, sp_clock_ns() + SP_IOCTL_NS);
}

int sp_amdgpu_open_node(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int sp_amdgpu_info_raw(const struct sp_kmd_ops *ops, int fd, uint32_t query, uint32_t type, void *out, uint32_t nbytes)
{
    struct drm_amdgpu_info info;
    memset(&info, 0, sizeof info);
    memset(out, 0, nbytes); /* an older kernel driver fills in fewer bytes */
    info.return_pointer = (uint64_t)(uintptr_t)out;
    info.return_size = nbytes;
    info.query = query;
    if (query == AMDGPU_INFO_FW_VERSION)
        info.query_fw.fw_type = type;
    else if (query == AMDGPU_INFO_HW_IP_INFO)
        info.query_hw_ip.type = type;
    else if (query == AMDGPU_INFO_SENSOR)
        info.sensor_info.type = type;
    return ask(ops, fd, DRM_IOCTL_AMDGPU_INFO, &info);
}

static int version(const struct sp_kmd_ops *ops, int fd, struct sp_amdgpu_facts *out)
{
    struct drm_version v;
    memset(&v, 0, sizeof v);
    v.name = out->driver;
    v.name_len = sizeof out->driver - 1;
    int rc = ask(ops, fd, DRM_IOCTL_VERSION, &v);
    out->major = v.version_major;
    out->minor = v.version_minor;
    out->patch = v.version_patchlevel;
    return rc < 0 ? rc : strcmp(out->driver, "amdgpu") != 0 ? -EXDEV : 0;
}

static uint32_t capability(const struct sp_kmd_ops *ops, int fd, uint64_t what)
{
    struct drm_get_cap cap = {.capability = what};
    return ask(ops, fd, DRM_IOCTL_GET_CAP, &cap) < 0 ? 0 : (uint32_t)cap.value;
}

int sp_amdgpu_facts(const struct sp_kmd_ops *ops, int fd, struct sp_amdgpu_facts *out, char *call, size_t nbytes)
{
    const struct {
        const char *name;
        uint32_t query, type;
        void *to;
        size_t size;
    } asked[] = {
        {"ACCEL_WORKING", AMDGPU_INFO_ACCEL_WORKING, 0, &out->accel_working, sizeof out->accel_working},
        {"DEV_INFO", AMDGPU_INFO_DEV_INFO, 0, &out->device, sizeof out->device},
        {"MEMORY", AMDGPU_INFO_MEMORY, 0, &out->memory, sizeof out->memory},
        {"HW_IP_INFO GFX", AMDGPU_INFO_HW_IP_INFO, AMDGPU_HW_IP_GFX, &out->gfx, sizeof out->gfx},
        {"HW_IP_INFO COMPUTE", AMDGPU_INFO_HW_IP_INFO, AMDGPU_HW_IP_COMPUTE, &out->compute, sizeof out->compute},
        {"HW_IP_INFO DMA", AMDGPU_INFO_HW_IP_INFO, AMDGPU_HW_IP_DMA, &out->dma, sizeof out->dma},
    };
    memset(out, 0, sizeof *out);
    snprintf(call, nbytes, "VERSION");
    int rc = version(ops, fd, out);
    for (size_t i = 0; rc >= 0 && i < sizeof asked / sizeof *asked; i++) {
        snprintf(call, nbytes, "INFO %s", asked[i].name);
        rc = sp_amdgpu_info_raw(ops, fd, asked[i].query, asked[i].type, asked[i].to, (uint32_t)asked[i].size);
    }
    if (rc < 0)
        return rc;
    struct drm_amdgpu_info_firmware firmware;
    if (sp_amdgpu_info_raw(ops, fd, AMDGPU_INFO_FW_VERSION, AMDGPU_INFO_FW_GFX_ME, &firmware, sizeof firmware) >= 0) {
        out->me_feature = firmware.feature;
        out->me_version = firmware.ver;
    }
    if (sp_amdgpu_info_raw(ops, fd, AMDGPU_INFO_FW_VERSION, AMDGPU_INFO_FW_GFX_MEC, &firmware, sizeof firmware) >= 0)
        out->mec_version = firmware.ver;
    out->timeline = capability(ops, fd, DRM_CAP_SYNCOBJ) && capability(ops, fd, DRM_CAP_SYNCOBJ_TIMELINE);
    out->prime = capability(ops, fd, DRM_CAP_PRIME);
    return 0;
}
