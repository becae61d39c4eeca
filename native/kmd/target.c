/* The project's only table of chips. It maps the kernel driver's description of a chip to the
 * compiler's name, such as gfx1036. The last digit of that name, the stepping, may differ from the
 * revision in the IP version (10.3.7 is gfx1036). */
#include "include/sp_amdgpu_target.h"

#include <stddef.h>

#define VERSION(major, minor, revision) ((major) << 16 | (minor) << 8 | (revision))

/* gfx_target_version of each version of the IP block GC. Source: Linux kfd_device.c,
 * kgd2kfd_probe. */
static const struct {
    uint32_t version;
    uint32_t target;
} by_version[] = {
    {VERSION(10, 3, 0), 1030}, {VERSION(10, 3, 1), 1033}, {VERSION(10, 3, 2), 1031}, {VERSION(10, 3, 3), 1035},
    {VERSION(10, 3, 4), 1032}, {VERSION(10, 3, 5), 1034}, {VERSION(10, 3, 6), 1036}, {VERSION(10, 3, 7), 1036},
    {VERSION(11, 0, 0), 1100}, {VERSION(11, 0, 1), 1103}, {VERSION(11, 0, 2), 1102}, {VERSION(11, 0, 3), 1101},
    {VERSION(11, 0, 4), 1103}, {VERSION(11, 5, 0), 1150}, {VERSION(11, 5, 1), 1151}, {VERSION(11, 5, 2), 1152},
    {VERSION(11, 5, 3), 1153},
};

/* For kernel drivers that do not report the IP version (KMS before 3.48): ranges of external_rev.
 * Linux nv.c and soc21.c compute external_rev from chip and revision; Mesa's amdgpu_asic_addr.h has
 * its ranges. NV below 0x28 is gfx10.1, which is not supported. */
static const struct {
    uint32_t family;
    uint32_t first, end; /* range of external_rev */
    uint32_t target;
} by_family[] = {
    {AMDGPU_FAMILY_NV, 0x28, 0x32, 1030},        {AMDGPU_FAMILY_NV, 0x32, 0x3c, 1031},
    {AMDGPU_FAMILY_NV, 0x3c, 0x46, 1032},        {AMDGPU_FAMILY_NV, 0x46, 0x50, 1034},
    {AMDGPU_FAMILY_VGH, 0x01, 0xff, 1033},       {AMDGPU_FAMILY_YC, 0x01, 0xff, 1035},
    {AMDGPU_FAMILY_GC_10_3_6, 0x01, 0xff, 1036}, {AMDGPU_FAMILY_GC_10_3_7, 0x01, 0xff, 1036},
    {AMDGPU_FAMILY_GC_11_0_0, 0x01, 0x10, 1100}, {AMDGPU_FAMILY_GC_11_0_0, 0x10, 0x20, 1102},
    {AMDGPU_FAMILY_GC_11_0_0, 0x20, 0xff, 1101}, {AMDGPU_FAMILY_GC_11_0_1, 0x01, 0xff, 1103},
    {AMDGPU_FAMILY_GC_11_5_0, 0x01, 0x40, 1150},
};

uint32_t sp_amdgpu_target(const struct drm_amdgpu_info_hw_ip *gfx, const struct drm_amdgpu_info_device *device)
{
    for (size_t i = 0; i < sizeof by_version / sizeof *by_version; i++)
        if (gfx->ip_discovery_version == by_version[i].version)
            return by_version[i].target;
    for (size_t i = 0; !gfx->ip_discovery_version && i < sizeof by_family / sizeof *by_family; i++)
        if (device->family == by_family[i].family && device->external_rev >= by_family[i].first &&
            device->external_rev < by_family[i].end)
            return by_family[i].target;
    return 0;
}
