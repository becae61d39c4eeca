/* Describes the ioctls that the recorder knows (include/sp_drm.h, sp_amdgpu_drm.h): their names,
 * and the memory to which their arguments point. Of an unknown ioctl, the recorder writes only the
 * number and the argument. */
#include "record.h"

#include <string.h>

static const struct {
    uint32_t request;
    const char *name;
} known[] = {
#define NAME(name) {DRM_IOCTL_##name, #name}
    NAME(VERSION), NAME(GEM_CLOSE), NAME(GET_CAP), NAME(SET_CLIENT_CAP), NAME(PRIME_HANDLE_TO_FD),
    NAME(PRIME_FD_TO_HANDLE), NAME(SYNCOBJ_CREATE), NAME(SYNCOBJ_DESTROY), NAME(SYNCOBJ_HANDLE_TO_FD),
    NAME(SYNCOBJ_FD_TO_HANDLE), NAME(SYNCOBJ_WAIT), NAME(SYNCOBJ_RESET), NAME(SYNCOBJ_SIGNAL),
    NAME(SYNCOBJ_TIMELINE_WAIT), NAME(SYNCOBJ_QUERY), NAME(SYNCOBJ_TRANSFER), NAME(SYNCOBJ_TIMELINE_SIGNAL),
    NAME(AMDGPU_GEM_CREATE), NAME(AMDGPU_GEM_MMAP), NAME(AMDGPU_CTX), NAME(AMDGPU_BO_LIST), NAME(AMDGPU_CS),
    NAME(AMDGPU_INFO), NAME(AMDGPU_GEM_METADATA), NAME(AMDGPU_GEM_WAIT_IDLE), NAME(AMDGPU_GEM_VA),
    NAME(AMDGPU_WAIT_CS), NAME(AMDGPU_GEM_OP), NAME(AMDGPU_GEM_USERPTR), NAME(AMDGPU_WAIT_FENCES), NAME(AMDGPU_VM),
    NAME(AMDGPU_FENCE_TO_HANDLE), NAME(AMDGPU_SCHED),
#undef NAME
};

/* Returns the bits 0 to 7 of a request. They identify an ioctl, although the size of its argument
 * may have grown. */
static uint32_t number(uint32_t request)
{
    return request & 0xff;
}

const char *sp_record_name(uint32_t request)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (number(known[i].request) == number(request))
            return known[i].name;
    return "UNKNOWN";
}

int sp_record_blocks(uint32_t request)
{
    uint32_t nr = number(request);
    return nr == number(DRM_IOCTL_AMDGPU_WAIT_CS) || nr == number(DRM_IOCTL_AMDGPU_WAIT_FENCES) ||
           nr == number(DRM_IOCTL_AMDGPU_GEM_WAIT_IDLE) || nr == number(DRM_IOCTL_SYNCOBJ_WAIT) ||
           nr == number(DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT);
}

struct spans {
    struct sp_record_span *out;
    uint32_t n;
};

static void span(struct spans *s, uint64_t address, uint64_t nbytes, uint32_t way)
{
    if (address && nbytes && s->n < SP_RECORD_SPANS)
        s->out[s->n++] = (struct sp_record_span){address, nbytes, way};
}

static void cs(struct spans *s, const union drm_amdgpu_cs *args)
{
    span(s, args->in.chunks, args->in.num_chunks * UINT64_C(8), SP_RECORD_IN);
    for (uint32_t i = 0; i < args->in.num_chunks && s->n + 3 < SP_RECORD_SPANS; i++) {
        uint64_t pointer;
        struct drm_amdgpu_cs_chunk chunk;
        struct drm_amdgpu_bo_list_in list;
        if (sp_record_peek(&pointer, args->in.chunks + i * UINT64_C(8), 8) != 8)
            return;
        span(s, pointer, sizeof chunk, SP_RECORD_IN);
        if (sp_record_peek(&chunk, pointer, sizeof chunk) != sizeof chunk)
            return;
        span(s, chunk.chunk_data, chunk.length_dw * UINT64_C(4), SP_RECORD_IN);
        if (chunk.chunk_id == AMDGPU_CHUNK_ID_BO_HANDLES &&
            sp_record_peek(&list, chunk.chunk_data, sizeof list) == sizeof list)
            span(s, list.bo_info_ptr, (uint64_t)list.bo_number * list.bo_info_size, SP_RECORD_IN);
    }
}

uint32_t sp_record_spans(uint32_t request, const void *argument, struct sp_record_span *out)
{
    const union {
        struct drm_version version;
        union drm_amdgpu_bo_list bo_list;
        union drm_amdgpu_cs cs;
        struct drm_amdgpu_info info;
        union drm_amdgpu_wait_fences fences;
        struct drm_syncobj_wait wait;
        struct drm_syncobj_timeline_wait timeline;
        struct drm_syncobj_array array;
        struct drm_syncobj_timeline_array points;
    } *a = argument;
    struct spans s = {out, 0};
    switch (number(request)) {
    case DRM_IOCTL_VERSION & 0xff:
        span(&s, (uintptr_t)a->version.name, a->version.name_len, SP_RECORD_OUT);
        span(&s, (uintptr_t)a->version.date, a->version.date_len, SP_RECORD_OUT);
        span(&s, (uintptr_t)a->version.desc, a->version.desc_len, SP_RECORD_OUT);
        break;
    case DRM_IOCTL_AMDGPU_BO_LIST & 0xff:
        span(&s, a->bo_list.in.bo_info_ptr, (uint64_t)a->bo_list.in.bo_number * a->bo_list.in.bo_info_size,
             SP_RECORD_IN);
        break;
    case DRM_IOCTL_AMDGPU_CS & 0xff: cs(&s, &a->cs); break;
    case DRM_IOCTL_AMDGPU_INFO & 0xff:
        span(&s, a->info.return_pointer, a->info.return_size, SP_RECORD_OUT);
        break;
    case DRM_IOCTL_AMDGPU_WAIT_FENCES & 0xff:
        span(&s, a->fences.in.fences, a->fences.in.fence_count * sizeof(struct drm_amdgpu_fence), SP_RECORD_IN);
        break;
    case DRM_IOCTL_SYNCOBJ_WAIT & 0xff:
        span(&s, a->wait.handles, a->wait.count_handles * UINT64_C(4), SP_RECORD_IN);
        break;
    case DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT & 0xff:
        span(&s, a->timeline.handles, a->timeline.count_handles * UINT64_C(4), SP_RECORD_IN);
        span(&s, a->timeline.points, a->timeline.count_handles * UINT64_C(8), SP_RECORD_IN);
        break;
    case DRM_IOCTL_SYNCOBJ_RESET & 0xff:
    case DRM_IOCTL_SYNCOBJ_SIGNAL & 0xff:
        span(&s, a->array.handles, a->array.count_handles * UINT64_C(4), SP_RECORD_IN);
        break;
    case DRM_IOCTL_SYNCOBJ_QUERY & 0xff:
        span(&s, a->points.handles, a->points.count_handles * UINT64_C(4), SP_RECORD_IN);
        span(&s, a->points.points, a->points.count_handles * UINT64_C(8), SP_RECORD_OUT);
        break;
    case DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL & 0xff:
        span(&s, a->points.handles, a->points.count_handles * UINT64_C(4), SP_RECORD_IN);
        span(&s, a->points.points, a->points.count_handles * UINT64_C(8), SP_RECORD_IN);
        break;
    default: break;
    }
    return s.n;
}
