"""Lists where the arguments of ioctls have handles, descriptors, times and addresses.

The offsets are those of native/include/sp_drm.h and sp_amdgpu_drm.h. A `HandlePlace` is 4 bytes of
an argument that name an object. `kind` is "bo", "ctx", "syncobj", "list" (of BOs) or "fd".
"""

from __future__ import annotations

from typing import NamedTuple

from sparkle_drv._native import ffi, lib

from .read import IoctlCall


class HandlePlace(NamedTuple):
    kind: str
    offset: int


class PointedArray(NamedTuple):
    """An array that the argument points to. `pointer` and `number` are the offsets of the array's
    address and count in the argument. `nbytes` is the size of an element. `places` says where
    one element names objects.
    """

    pointer: int
    number: int
    nbytes: int
    places: tuple[HandlePlace, ...] = ()


def _at(ctype: str, field: str) -> int:
    return int(ffi.offsetof(ctype, *field.split(".")))


def _place(kind: str, ctype: str, field: str) -> HandlePlace:
    return HandlePlace(kind, _at(ctype, field))


def _places(kind: str, ctype: str, *fields: str) -> list[HandlePlace]:
    return [_place(kind, ctype, field) for field in fields]


CTX, LIST = "union drm_amdgpu_ctx", "union drm_amdgpu_bo_list"
FENCE = "union drm_amdgpu_fence_to_handle"
SYNC, PRIME = "struct drm_syncobj_handle", "struct drm_prime_handle"

GIVEN: dict[str, list[HandlePlace]] = {
    "GEM_CLOSE": _places("bo", "struct drm_gem_close", "handle"),
    "PRIME_HANDLE_TO_FD": _places("bo", PRIME, "handle"),
    "PRIME_FD_TO_HANDLE": _places("fd", PRIME, "fd"),
    "SYNCOBJ_DESTROY": _places("syncobj", "struct drm_syncobj_destroy", "handle"),
    "SYNCOBJ_HANDLE_TO_FD": _places("syncobj", SYNC, "handle"),
    "SYNCOBJ_FD_TO_HANDLE": _places("fd", SYNC, "fd"),
    "SYNCOBJ_TRANSFER": _places(
        "syncobj", "struct drm_syncobj_transfer", "src_handle", "dst_handle"
    ),
    "AMDGPU_GEM_MMAP": _places("bo", "union drm_amdgpu_gem_mmap", "in.handle"),
    "AMDGPU_CTX": _places("ctx", CTX, "in.ctx_id"),
    "AMDGPU_BO_LIST": _places("list", LIST, "in.list_handle"),
    "AMDGPU_CS": [
        _place("ctx", "union drm_amdgpu_cs", "in.ctx_id"),
        _place("list", "union drm_amdgpu_cs", "in.bo_list_handle"),
    ],
    "AMDGPU_GEM_METADATA": _places("bo", "struct drm_amdgpu_gem_metadata", "handle"),
    "AMDGPU_GEM_WAIT_IDLE": _places("bo", "union drm_amdgpu_gem_wait_idle", "in.handle"),
    "AMDGPU_GEM_VA": _places("bo", "struct drm_amdgpu_gem_va", "handle"),
    "AMDGPU_WAIT_CS": _places("ctx", "union drm_amdgpu_wait_cs", "in.ctx_id"),
    "AMDGPU_GEM_OP": _places("bo", "struct drm_amdgpu_gem_op", "handle"),
    "AMDGPU_FENCE_TO_HANDLE": _places("ctx", FENCE, "in.fence.ctx_id"),
}
MADE: dict[str, list[HandlePlace]] = {
    "PRIME_HANDLE_TO_FD": _places("fd", PRIME, "fd"),
    "PRIME_FD_TO_HANDLE": _places("bo", PRIME, "handle"),
    "SYNCOBJ_CREATE": _places("syncobj", "struct drm_syncobj_create", "handle"),
    "SYNCOBJ_HANDLE_TO_FD": _places("fd", SYNC, "fd"),
    "SYNCOBJ_FD_TO_HANDLE": _places("syncobj", SYNC, "handle"),
    "AMDGPU_GEM_CREATE": _places("bo", "union drm_amdgpu_gem_create", "out.handle"),
    "AMDGPU_GEM_USERPTR": _places("bo", "struct drm_amdgpu_gem_userptr", "handle"),
}
_HANDLES = (HandlePlace("syncobj", 0),)


def _syncobjs(ctype: str, points: bool = False) -> list[PointedArray]:
    count = _at(ctype, "count_handles")
    arrays = [PointedArray(_at(ctype, "handles"), count, 4, _HANDLES)]
    return arrays + ([PointedArray(_at(ctype, "points"), count, 8)] if points else [])


_FENCES = "union drm_amdgpu_wait_fences"
ARRAYS: dict[str, list[PointedArray]] = {
    "SYNCOBJ_WAIT": _syncobjs("struct drm_syncobj_wait"),
    "SYNCOBJ_RESET": _syncobjs("struct drm_syncobj_array"),
    "SYNCOBJ_SIGNAL": _syncobjs("struct drm_syncobj_array"),
    "SYNCOBJ_TIMELINE_WAIT": _syncobjs("struct drm_syncobj_timeline_wait", True),
    "SYNCOBJ_QUERY": _syncobjs("struct drm_syncobj_timeline_array", True),
    "SYNCOBJ_TIMELINE_SIGNAL": _syncobjs("struct drm_syncobj_timeline_array", True),
    "AMDGPU_WAIT_FENCES": [
        PointedArray(
            _at(_FENCES, "in.fences"),
            _at(_FENCES, "in.fence_count"),
            ffi.sizeof("struct drm_amdgpu_fence"),
            (_place("ctx", "struct drm_amdgpu_fence", "ctx_id"),),
        )
    ],
}
# By ioctl: where its argument has the absolute time (CLOCK_MONOTONIC) until which the ioctl may
# block, as an offset in bytes.
TIMEOUTS = {
    "SYNCOBJ_WAIT": _at("struct drm_syncobj_wait", "timeout_nsec"),
    "SYNCOBJ_TIMELINE_WAIT": _at("struct drm_syncobj_timeline_wait", "timeout_nsec"),
    "AMDGPU_GEM_WAIT_IDLE": _at("union drm_amdgpu_gem_wait_idle", "in.timeout"),
    "AMDGPU_WAIT_CS": _at("union drm_amdgpu_wait_cs", "in.timeout"),
    "AMDGPU_WAIT_FENCES": _at(_FENCES, "in.timeout_ns"),
}
# Ioctls that wait for jobs or ask for their state.
OF_JOBS = {
    *TIMEOUTS,
    "AMDGPU_FENCE_TO_HANDLE",
    "SYNCOBJ_HANDLE_TO_FD",
    "SYNCOBJ_TRANSFER",
}
_DEP = (_place("ctx", "struct drm_amdgpu_cs_chunk_dep", "ctx_id"),)
_DEP_NBYTES = ffi.sizeof("struct drm_amdgpu_cs_chunk_dep")
_POINT = ffi.sizeof("struct drm_amdgpu_cs_chunk_syncobj")
# By chunk id: bytes per element, and where one element names objects.
CHUNKS: dict[int, tuple[int, tuple[HandlePlace, ...]]] = {
    lib.AMDGPU_CHUNK_ID_FENCE: (
        ffi.sizeof("struct drm_amdgpu_cs_chunk_fence"),
        (_place("bo", "struct drm_amdgpu_cs_chunk_fence", "handle"),),
    ),
    lib.AMDGPU_CHUNK_ID_DEPENDENCIES: (_DEP_NBYTES, _DEP),
    lib.AMDGPU_CHUNK_ID_SCHEDULED_DEPENDENCIES: (_DEP_NBYTES, _DEP),
    lib.AMDGPU_CHUNK_ID_SYNCOBJ_IN: (4, _HANDLES),
    lib.AMDGPU_CHUNK_ID_SYNCOBJ_OUT: (4, _HANDLES),
    lib.AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_WAIT: (_POINT, _HANDLES),
    lib.AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_SIGNAL: (_POINT, _HANDLES),
}
# INFO queries whose answers change with time, so that a replay does not compare them.
UNSTEADY = {
    lib.AMDGPU_INFO_TIMESTAMP,
    lib.AMDGPU_INFO_NUM_BYTES_MOVED,
    lib.AMDGPU_INFO_VRAM_USAGE,
    lib.AMDGPU_INFO_GTT_USAGE,
    lib.AMDGPU_INFO_VIS_VRAM_USAGE,
    lib.AMDGPU_INFO_NUM_EVICTIONS,
    lib.AMDGPU_INFO_MEMORY,
    lib.AMDGPU_INFO_SENSOR,
    lib.AMDGPU_INFO_NUM_VRAM_CPU_PAGE_FAULTS,
}


def u32(data: bytes | bytearray, offset: int) -> int:
    return int.from_bytes(data[offset : offset + 4], "little")


def u64(data: bytes | bytearray, offset: int) -> int:
    return int.from_bytes(data[offset : offset + 8], "little")


def given(call: IoctlCall) -> list[HandlePlace]:
    """Returns where the call's argument names objects that existed before the call."""
    places = GIVEN.get(call.name, [])
    if call.name == "SYNCOBJ_FD_TO_HANDLE" and _imports(call):
        return places + MADE[call.name]
    return places


def made(call: IoctlCall) -> list[HandlePlace]:
    """Returns where the call's argument names objects that the call has made."""
    op = u32(call.before, 0)
    if call.name == "AMDGPU_CTX" and op == lib.AMDGPU_CTX_OP_ALLOC_CTX:
        return _places("ctx", CTX, "out.alloc.ctx_id")
    if call.name == "AMDGPU_BO_LIST" and op == lib.AMDGPU_BO_LIST_OP_CREATE:
        return _places("list", LIST, "out.list_handle")
    if call.name == "SYNCOBJ_FD_TO_HANDLE" and _imports(call):
        return []
    if call.name == "AMDGPU_FENCE_TO_HANDLE":
        what = u32(call.before, _at(FENCE, "in.what"))
        syncobj = what == lib.AMDGPU_FENCE_TO_HANDLE_GET_SYNCOBJ
        return _places("syncobj" if syncobj else "fd", FENCE, "out.handle")
    return MADE.get(call.name, [])


def _imports(call: IoctlCall) -> bool:
    flag = lib.DRM_SYNCOBJ_FD_TO_HANDLE_FLAGS_IMPORT_SYNC_FILE
    return bool(u32(call.before, _at(SYNC, "flags")) & flag)
