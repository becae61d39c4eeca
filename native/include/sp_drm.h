/* The core DRM ioctls that the amdgpu backend or the emulator needs: this project's declarations of
 * Linux's interface, under Linux's names. tests/backends/amdgpu/test_drm_structs.py
 * compares every size, offset and constant with libdrm's headers. */
#ifndef SP_DRM_H
#define SP_DRM_H
#include "sp_base.h"

/* Request numbers of the ioctls: direction (1 write, 2 read, 3 both) << 30 | size << 16 | 'd' << 8
 * | number. */
enum {
    DRM_IOCTL_VERSION = 0xc0406400,
    DRM_IOCTL_GEM_CLOSE = 0x40086409,
    DRM_IOCTL_GET_CAP = 0xc010640c,
    DRM_IOCTL_SET_CLIENT_CAP = 0x4010640d,
    DRM_IOCTL_PRIME_HANDLE_TO_FD = 0xc00c642d,
    DRM_IOCTL_PRIME_FD_TO_HANDLE = 0xc00c642e,
    DRM_IOCTL_SYNCOBJ_CREATE = 0xc00864bf,
    DRM_IOCTL_SYNCOBJ_DESTROY = 0xc00864c0,
    DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD = 0xc01064c1,
    DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE = 0xc01064c2,
    DRM_IOCTL_SYNCOBJ_WAIT = 0xc02864c3,
    DRM_IOCTL_SYNCOBJ_RESET = 0xc01064c4,
    DRM_IOCTL_SYNCOBJ_SIGNAL = 0xc01064c5,
    DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT = 0xc03064ca,
    DRM_IOCTL_SYNCOBJ_QUERY = 0xc01864cb,
    DRM_IOCTL_SYNCOBJ_TRANSFER = 0xc02064cc,
    DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL = 0xc01864cd
};

enum {
    DRM_CAP_PRIME = 0x5,
    DRM_CAP_TIMESTAMP_MONOTONIC = 0x6,
    DRM_CAP_ADDFB2_MODIFIERS = 0x10,
    DRM_CAP_SYNCOBJ = 0x13,
    DRM_CAP_SYNCOBJ_TIMELINE = 0x14,
    DRM_PRIME_CAP_IMPORT = 1,
    DRM_PRIME_CAP_EXPORT = 2,
    DRM_CLOEXEC = 0x80000,
    DRM_RDWR = 2
};

enum {
    DRM_SYNCOBJ_CREATE_SIGNALED = 1,
    DRM_SYNCOBJ_FD_TO_HANDLE_FLAGS_IMPORT_SYNC_FILE = 1,
    DRM_SYNCOBJ_HANDLE_TO_FD_FLAGS_EXPORT_SYNC_FILE = 1,
    DRM_SYNCOBJ_WAIT_FLAGS_WAIT_ALL = 1,
    DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT = 2,
    DRM_SYNCOBJ_WAIT_FLAGS_WAIT_AVAILABLE = 4,
    DRM_SYNCOBJ_WAIT_FLAGS_WAIT_DEADLINE = 8,
    DRM_SYNCOBJ_QUERY_FLAGS_LAST_SUBMITTED = 1
};

struct drm_version {
    int version_major;
    int version_minor;
    int version_patchlevel;
    size_t name_len;
    char *name;
    size_t date_len;
    char *date;
    size_t desc_len;
    char *desc;
};

struct drm_gem_close {
    uint32_t handle;
    uint32_t pad;
};

struct drm_get_cap {
    uint64_t capability;
    uint64_t value;
};

struct drm_set_client_cap {
    uint64_t capability;
    uint64_t value;
};

struct drm_prime_handle {
    uint32_t handle;
    uint32_t flags;
    int32_t fd;
};

struct drm_syncobj_create {
    uint32_t handle;
    uint32_t flags;
};

struct drm_syncobj_destroy {
    uint32_t handle;
    uint32_t pad;
};

struct drm_syncobj_handle {
    uint32_t handle;
    uint32_t flags;
    int32_t fd;
    uint32_t pad;
};

struct drm_syncobj_transfer {
    uint32_t src_handle;
    uint32_t dst_handle;
    uint64_t src_point;
    uint64_t dst_point;
    uint32_t flags;
    uint32_t pad;
};

/* timeout_nsec is an absolute time of CLOCK_MONOTONIC. Linux before 6.6 ignores the member
 * deadline_nsec and the flag DRM_SYNCOBJ_WAIT_FLAGS_WAIT_DEADLINE. */
struct drm_syncobj_wait {
    uint64_t handles;
    int64_t timeout_nsec;
    uint32_t count_handles;
    uint32_t flags;
    uint32_t first_signaled;
    uint32_t pad;
    uint64_t deadline_nsec;
};

struct drm_syncobj_timeline_wait {
    uint64_t handles;
    uint64_t points;
    int64_t timeout_nsec;
    uint32_t count_handles;
    uint32_t flags;
    uint32_t first_signaled;
    uint32_t pad;
    uint64_t deadline_nsec;
};

struct drm_syncobj_array {
    uint64_t handles;
    uint32_t count_handles;
    uint32_t pad;
};

struct drm_syncobj_timeline_array {
    uint64_t handles;
    uint64_t points;
    uint32_t count_handles;
    uint32_t flags;
};
#endif
