/* Keeps two lists of a recorded node: its BOs by handle, and its ranges of GPU addresses. Reads the
 * memory of a BO or of a range. */
#define _GNU_SOURCE 1
#include "record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

/* Mask of an address. In a canonical address all higher bits equal bit 47. */
static const uint64_t VA_BITS = (UINT64_C(1) << 48) - 1;

size_t sp_record_peek(void *out, uint64_t address, size_t nbytes)
{
    struct iovec to = {out, nbytes}, from = {(void *)(uintptr_t)address, nbytes};
    ssize_t n = nbytes ? process_vm_readv(getpid(), &to, 1, &from, 1, 0) : 0;
    return n < 0 ? 0 : (size_t)n;
}

struct sp_record_bo *sp_record_bo_find(const struct sp_record_node *node, uint32_t handle)
{
    struct sp_record_bo *bo = node->bos;
    while (bo && bo->handle != handle)
        bo = bo->next;
    return bo;
}

struct sp_record_bo *sp_record_bo_add(struct sp_record_node *node, uint32_t handle, uint64_t nbytes)
{
    struct sp_record_bo *bo = sp_record_bo_find(node, handle);
    if (!bo && (bo = calloc(1, sizeof *bo))) {
        *bo = (struct sp_record_bo){.next = node->bos, .handle = handle, .nbytes = nbytes};
        node->bos = bo;
    }
    return bo;
}

static void free_bo(struct sp_record *r, struct sp_record_bo *bo)
{
    if (bo->map)
        r->next->munmap(r->next->self, bo->map, bo->nbytes);
    free(bo->held);
    free(bo);
}

void sp_record_bo_drop(struct sp_record *r, struct sp_record_node *node, uint32_t handle)
{
    for (struct sp_record_map **at = &node->maps; *at;) {
        struct sp_record_map *map = *at;
        if (map->handle == handle) {
            *at = map->next;
            free(map);
        } else {
            at = &map->next;
        }
    }
    for (struct sp_record_bo **at = &node->bos; *at; at = &(*at)->next)
        if ((*at)->handle == handle) {
            struct sp_record_bo *bo = *at;
            *at = bo->next;
            free_bo(r, bo);
            return;
        }
}

void sp_record_node_drop(struct sp_record *r, struct sp_record_node *node)
{
    while (node->bos)
        sp_record_bo_drop(r, node, node->bos->handle);
    /* mappings for partial residency belong to no BO, so they are still in the list */
    while (node->maps) {
        struct sp_record_map *map = node->maps;
        node->maps = map->next;
        free(map);
    }
}

static void add_map(struct sp_record_node *node, uint64_t va, uint64_t nbytes, uint64_t offset, uint32_t handle)
{
    struct sp_record_map *map = nbytes ? malloc(sizeof *map) : NULL;
    if (map) {
        *map = (struct sp_record_map){node->maps, va, nbytes, offset, handle};
        node->maps = map;
    }
}

/* Removes the range [va, va + nbytes) from the node's list of GPU mappings. A mapping that reaches
 * beyond the range keeps its parts outside. */
static void clear(struct sp_record_node *node, uint64_t va, uint64_t nbytes)
{
    uint64_t end = va + nbytes;
    struct sp_record_map *list = node->maps;
    node->maps = NULL;
    while (list) {
        struct sp_record_map *map = list;
        uint64_t map_end = map->va + map->nbytes;
        list = map->next;
        if (map->va >= end || map_end <= va) {
            map->next = node->maps;
            node->maps = map;
            continue;
        }
        if (map->va < va)
            add_map(node, map->va, va - map->va, map->offset, map->handle);
        if (map_end > end)
            add_map(node, end, map_end - end, map->offset + (end - map->va), map->handle);
        free(map);
    }
}

void sp_record_va(struct sp_record_node *node, const struct drm_amdgpu_gem_va *args)
{
    uint64_t va = args->va_address & VA_BITS;
    if (args->operation == AMDGPU_VA_OP_UNMAP) {
        for (struct sp_record_map **at = &node->maps; *at; at = &(*at)->next)
            if ((*at)->va == va) {
                struct sp_record_map *map = *at;
                *at = map->next;
                free(map);
                return;
            }
        return;
    }
    if (args->operation != AMDGPU_VA_OP_MAP)
        clear(node, va, args->map_size);
    if (args->operation != AMDGPU_VA_OP_CLEAR)
        add_map(node, va, args->map_size, args->offset_in_bo, args->handle);
}

void *sp_record_bo_map(struct sp_record *r, const struct sp_record_node *node, const struct sp_record_bo *bo,
                       uint64_t nbytes)
{
    union drm_amdgpu_gem_mmap args;
    memset(&args, 0, sizeof args);
    args.in.handle = bo->handle;
    if (bo->foreign || sp_kmd_ioctl(r->next, node->fd, DRM_IOCTL_AMDGPU_GEM_MMAP, &args, 0) < 0)
        return MAP_FAILED;
    /* Maps from the BO's beginning, because the kernel driver looks for a BO that begins exactly at
     * the offset. */
    int64_t at = r->next->mmap(r->next->self, nbytes, PROT_READ, MAP_SHARED, node->fd, args.out.addr_ptr);
    return at < 0 && at >= -4095 ? MAP_FAILED : (void *)(uintptr_t)at;
}

static size_t read_bo(struct sp_record *r, const struct sp_record_node *node, const struct sp_record_bo *bo,
                      uint64_t offset, void *out, size_t nbytes)
{
    if (offset >= bo->nbytes || nbytes > bo->nbytes - offset)
        return 0;
    if (bo->user)
        return sp_record_peek(out, bo->user + offset, nbytes);
    /* Makes a new mapping: process_vm_readv cannot read mappings of device memory, and the program
     * may have unmapped its own. */
    void *map = sp_record_bo_map(r, node, bo, offset + nbytes);
    if (map == MAP_FAILED)
        return 0;
    memcpy(out, (char *)map + offset, nbytes);
    r->next->munmap(r->next->self, map, offset + nbytes);
    return nbytes;
}

size_t sp_record_gpu(struct sp_record *r, const struct sp_record_node *node, uint64_t va, void *out, size_t nbytes)
{
    size_t done = 0;
    va &= VA_BITS;
    while (done < nbytes) {
        uint64_t at = va + done;
        const struct sp_record_map *map = node->maps;
        while (map && (at < map->va || at - map->va >= map->nbytes))
            map = map->next;
        const struct sp_record_bo *bo = map ? sp_record_bo_find(node, map->handle) : NULL;
        if (!bo)
            break;
        uint64_t left = map->va + map->nbytes - at;
        size_t n = left < nbytes - done ? (size_t)left : nbytes - done;
        if (read_bo(r, node, bo, map->offset + (at - map->va), (char *)out + done, n) != n)
            break;
        done += n;
    }
    return done;
}
