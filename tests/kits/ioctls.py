"""Helpers for the tests of the emulated kernel: expected errors, raw structs, packets."""

from __future__ import annotations

import contextlib
import errno
import time

import pytest

from sparkle_drv.testing.emulator import IP, ffi, lib

PAGE = 4096
FOREVER = 2**64 - 1


@contextlib.contextmanager
def refused(code: int):
    """The block raises OSError with this errno and no other."""
    with pytest.raises(OSError, match=errno.errorcode[code]) as caught:
        yield
    assert caught.value.errno == code


def leaks(machine) -> dict[str, int]:
    """What is alive; jobs that were cancelled, or whose word came before their end, get 10 s."""
    for _ in range(1000):
        left = {name: n for name, n in machine.live_counts().items() if n}
        if not left:
            break
        time.sleep(0.01)
    return left


def soon(seconds: float = 10.0) -> int:
    """An absolute timeout, ns."""
    return time.monotonic_ns() + int(seconds * 1e9)


def address(data) -> int:
    return int(ffi.cast("uintptr_t", data))


def create(node, nbytes=PAGE, domains=2, flags=0):
    """GEM_CREATE: the handle."""
    made = node.call(
        "AMDGPU_GEM_CREATE",
        "union drm_amdgpu_gem_create",
        bo_size=nbytes,
        domains=domains,
        domain_flags=flags,
    )
    return made.out.handle


def close(node, handle):
    node.call("GEM_CLOSE", "struct drm_gem_close", handle=handle)


def va(node, op, handle=0, *, at=0x1000000, nbytes=PAGE, offset=0, flags=0xE):
    """GEM_VA by name of the operation or by number."""
    number = op if isinstance(op, int) else getattr(lib, f"AMDGPU_VA_OP_{op}")
    node.call(
        "AMDGPU_GEM_VA",
        "struct drm_amdgpu_gem_va",
        handle=handle,
        operation=number,
        flags=flags,
        va_address=at,
        offset_in_bo=offset,
        map_size=nbytes,
    )


def ctx(node, op, **fields):
    number = op if isinstance(op, int) else getattr(lib, f"AMDGPU_CTX_OP_{op}")
    return node.call("AMDGPU_CTX", "union drm_amdgpu_ctx", op=number, **fields).out


def state(gpu) -> int:
    """QUERY_STATE2 flags."""
    return ctx(gpu.node, "QUERY_STATE2", ctx_id=gpu.ctx).state.flags


def store(buffer, value, offset=0):
    """WRITE_DATA of one dword to memory, with write confirmation."""
    at = buffer.va + offset
    return [0xC0033700, 0x00100500, at & 0xFFFFFFFF, at >> 32, value]


def await_word(buffer, value, offset=0):
    """WAIT_REG_MEM until the dword equals `value`: a job that runs until somebody stores it. The
    host does in memory that no cache holds (rights "u")."""
    at = buffer.va + offset
    return [0xC0053C00, 0x13, at & 0xFFFFFFFF, at >> 32, value, 0xFFFFFFFF, 4]


def wait_cs(gpu, job, timeout=0):
    """WAIT_CS: its status, 0 done, 1 timed out. `job.ip` may be a number that has no name."""
    args = gpu.node.call(
        "AMDGPU_WAIT_CS",
        "union drm_amdgpu_wait_cs",
        handle=job.seq,
        timeout=timeout,
        ip_type=IP.get(job.ip, job.ip),
        ring=job.ring,
        ctx_id=gpu.ctx,
    )
    return args.out.status


def fence_of(gpu, job):
    """struct drm_amdgpu_fence as initialiser."""
    return (gpu.ctx, IP[job.ip], 0, job.ring, job.seq)


class Syncobj:
    """A syncobj by handle, and what can be done to it."""

    def __init__(self, node, flags=0, handle=None):
        self.node = node
        made = handle or node.call("SYNCOBJ_CREATE", "struct drm_syncobj_create", flags=flags)
        self.handle = handle or made.handle

    def _array(self, call, ctype, points=None, **fields):
        handles = ffi.new("uint32_t[]", [self.handle])
        fields |= {"handles": address(handles), "count_handles": 1}
        values = ffi.new("uint64_t[]", [points or 0])
        if points is not None:
            fields["points"] = address(values)
        done = self.node.call(call, ctype, **fields)
        return done, values[0]

    def reset(self):
        self._array("SYNCOBJ_RESET", "struct drm_syncobj_array")

    def signal(self, point=None):
        if point is None:
            self._array("SYNCOBJ_SIGNAL", "struct drm_syncobj_array")
        else:
            ctype = "struct drm_syncobj_timeline_array"
            self._array("SYNCOBJ_TIMELINE_SIGNAL", ctype, points=point)

    def query(self, flags=0):
        ctype = "struct drm_syncobj_timeline_array"
        return self._array("SYNCOBJ_QUERY", ctype, points=0, flags=flags)[1]

    def wait(self, timeout=0, flags=0, point=None):
        fields = {"timeout_nsec": timeout, "flags": flags}
        if point is None:
            self._array("SYNCOBJ_WAIT", "struct drm_syncobj_wait", **fields)
        else:
            ctype = "struct drm_syncobj_timeline_wait"
            self._array("SYNCOBJ_TIMELINE_WAIT", ctype, points=point, **fields)

    def to_fd(self, flags=0):
        args = self.node.call(
            "SYNCOBJ_HANDLE_TO_FD", "struct drm_syncobj_handle", handle=self.handle, flags=flags
        )
        return args.fd

    def destroy(self):
        self.node.call("SYNCOBJ_DESTROY", "struct drm_syncobj_destroy", handle=self.handle)
