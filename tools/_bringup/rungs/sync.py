"""amdgpu: fences of every kind, syncobjs, order between queues."""

from __future__ import annotations

import errno
import os
import select
import time
from typing import Any

from _bringup.benches.amdgpu import Bench
from _bringup.benches.hw import IP, Gpu, Job, ffi, lib, pointer
from _bringup.results.rung import Rung, Wrong
from sparkle_drv.lowlevel import raw

from .node import refused
from .packets import await_word, copy, expect, store

FOR_SUBMIT = lib.DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT


def soon(seconds: float) -> int:
    """Returns the absolute timeout that is `seconds` from now."""
    return time.monotonic_ns() + int(seconds * 1e9)


class Syncobj:
    """A DRM syncobj: an object of the kernel driver, which `handle` names."""

    def __init__(self, node: raw.DrmNode, flags: int = 0, handle: int = 0) -> None:
        self.node = node
        self.handle = (
            handle or node.call("SYNCOBJ_CREATE", "struct drm_syncobj_create", flags=flags).handle
        )

    def _array(self, call: str, ctype: str, points: int | None = None, **fields: Any) -> int:
        handles, values = ffi.new("uint32_t[]", [self.handle]), ffi.new("uint64_t[]", [points or 0])
        fields |= {"handles": pointer(handles), "count_handles": 1}
        if points is not None:
            fields["points"] = pointer(values)
        self.node.call(call, ctype, **fields)
        return int(values[0])

    def reset(self) -> None:
        self._array("SYNCOBJ_RESET", "struct drm_syncobj_array")

    def signal(self, point: int | None = None) -> None:
        if point is None:
            self._array("SYNCOBJ_SIGNAL", "struct drm_syncobj_array")
        else:
            ctype = "struct drm_syncobj_timeline_array"
            self._array("SYNCOBJ_TIMELINE_SIGNAL", ctype, point)

    def query(self) -> int:
        return self._array("SYNCOBJ_QUERY", "struct drm_syncobj_timeline_array", 0)

    def wait(self, timeout_s: float, point: int | None = None, flags: int = FOR_SUBMIT) -> None:
        """Waits until the syncobj is signalled, or until its timeline reaches `point`. Raises
        IoctlError with ETIME if that takes longer than `timeout_s`.
        """
        fields = {"timeout_nsec": soon(timeout_s), "flags": flags}
        kind = "SYNCOBJ_WAIT" if point is None else "SYNCOBJ_TIMELINE_WAIT"
        self._array(kind, f"struct drm_{kind.lower()}", point, **fields)

    def destroy(self) -> None:
        self.node.call("SYNCOBJ_DESTROY", "struct drm_syncobj_destroy", handle=self.handle)


def fence_of(gpu: Gpu, job: Job) -> Any:
    """Returns the initialiser of the struct drm_amdgpu_fence that names the fence of `job`."""
    return (gpu.ctx, IP[job.ip], 0, job.ring, job.seq)


def fences(b: Bench) -> str:
    gpu = b.gpu()
    out, page = gpu.buffer(4096, rights="rwu"), gpu.buffer(4096)
    user = ffi.new("struct drm_amdgpu_cs_chunk_fence *", {"handle": page.handle, "offset": 64})
    job = gpu.submit(
        "compute", await_word(b, out, 1), bos=[out, page],
        chunks=[(lib.AMDGPU_CHUNK_ID_FENCE, user)],
    )  # fmt: skip
    early = gpu.done(job, 0.0)
    word = page.map.cast("Q")[8]
    out.write([1])
    gpu.wait(job, b.job_s)
    if early or word:
        raise Wrong("a job that cannot have ended is reported as done", early=True)
    if not b.eventually(lambda: page.map.cast("Q")[8] == job.seq):
        raise Wrong(
            "WAIT_CS reports that the job has ended, but the word of its FENCE chunk is "
            f"{page.map.cast('Q')[8]}, expected {job.seq}", no_fence=True,
        )  # fmt: skip
    array = ffi.new("struct drm_amdgpu_fence[]", [fence_of(gpu, job)])
    waited = b.node.call(
        "AMDGPU_WAIT_FENCES", "union drm_amdgpu_wait_fences", fences=pointer(array),
        fence_count=1, wait_all=1, timeout_ns=soon(b.job_s),
    )  # fmt: skip
    if waited.out.status != 1:
        raise Wrong("WAIT_CS reports that the job has ended, WAIT_FENCES does not", early=False)
    later = gpu.submit("compute", store(b, out, 2), bos=[out])
    gpu.wait(later, b.job_s)
    if later.seq <= job.seq:
        raise Wrong(f"expected rising sequence numbers, got {job.seq}, {later.seq}", bad_ids=True)
    return f"WAIT_CS, WAIT_FENCES and the FENCE chunk agree on {job.seq}"


def fence_export(b: Bench) -> str:
    gpu = b.gpu()
    out = gpu.buffer(4096, rights="rwu")
    job = gpu.submit("compute", await_word(b, out, 1), bos=[out])
    asked = ffi.new("union drm_amdgpu_fence_to_handle *")
    getattr(asked, "in").fence = fence_of(gpu, job)
    getattr(asked, "in").what = lib.AMDGPU_FENCE_TO_HANDLE_GET_SYNC_FILE_FD
    b.node.ioctl("AMDGPU_FENCE_TO_HANDLE", asked)
    fd = asked.out.handle
    try:
        early = bool(select.select([fd], [], [], 0)[0])
        out.write([1])
        late = not select.select([fd], [], [], b.job_s)[0]
    finally:
        os.close(fd)
    gpu.wait(job, b.job_s)
    if early or late:
        raise Wrong(f"the sync_file is readable too {'early' if early else 'late'}", early=early)
    return "a job's sync_file becomes readable when it is done"


def syncobj(b: Bench) -> str:
    gpu, one = b.gpu(), Syncobj(b.node)
    out = gpu.buffer(4096)
    refused(errno.ETIME, "SYNCOBJ_WAIT without a signal", lambda: one.wait(0.01))
    one.signal()
    one.wait(b.job_s)
    one.reset()
    handle = ffi.new("uint32_t[]", [one.handle])
    gpu.submit(
        "compute", store(b, out, 3), bos=[out], chunks=[(lib.AMDGPU_CHUNK_ID_SYNCOBJ_OUT, handle)]
    )
    one.wait(b.job_s)
    expect("before its syncobj", out, [3])
    after = gpu.submit(
        "compute", store(b, out, 4, 1), bos=[out],
        chunks=[(lib.AMDGPU_CHUNK_ID_SYNCOBJ_IN, handle)],
    )  # fmt: skip
    gpu.wait(after, b.job_s)
    expect("behind a syncobj", out, [3, 4])
    one.destroy()
    return "host signal and reset, signalled by a job, waited for by a job"


def timeline(b: Bench) -> str:
    gpu, line = b.gpu(), Syncobj(b.node)
    out = gpu.buffer(4096)
    line.signal(5)
    if line.query() != 5:
        raise Wrong(f"expected a timeline at point 5, got {line.query()}", bad_timeline=True)
    line.wait(b.job_s, 4)
    refused(errno.ETIME, "a wait for a missing point", lambda: line.wait(0.01, 6))
    point = ffi.new("struct drm_amdgpu_cs_chunk_syncobj *", {"handle": line.handle, "point": 9})
    gpu.submit(
        "compute", store(b, out, 1), bos=[out],
        chunks=[(lib.AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_SIGNAL, point)],
    )  # fmt: skip
    line.wait(b.job_s, 9)
    expect("before point 9", out, [1])
    if line.query() != 9:
        raise Wrong(f"expected a timeline at point 9, got {line.query()}", bad_timeline=True)
    point = ffi.new("struct drm_amdgpu_cs_chunk_syncobj *", {"handle": line.handle, "point": 12})
    held = gpu.submit(
        "compute", store(b, out, 2, 1), bos=[out], ring=0,
        chunks=[(lib.AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_WAIT, point)],
    ) if _future(b, line) else None  # fmt: skip
    if held is not None:
        gpu.wait(held, b.job_s)
        expect("behind point 12", out, [1, 2])
    line.destroy()
    return "points by host and job, waits for them, QUERY"


def _future(b: Bench, line: Syncobj) -> bool:
    """Signals point 12 of the timeline `line` before any job uses it, because a job can wait only
    for a point that exists. Returns whether the timeline then stands at 12.
    """
    line.signal(12)
    return line.query() == 12


def order(b: Bench) -> str:
    """Submits a chain of jobs over all compute rings, in which each job waits for the
    one before.
    """
    gpu, rings = b.gpu(), b.rings("compute")
    out = gpu.buffer(4096, rights="rwu")
    gate = gpu.submit("compute", await_word(b, out, 1, 1000) + store(b, out, 1), bos=[out])
    last, jobs = gate, 12
    for i in range(1, jobs):
        chunk = ffi.new("struct drm_amdgpu_cs_chunk_dep *")
        chunk.ip_type, chunk.ring = IP[last.ip], last.ring
        chunk.ctx_id, chunk.handle = gpu.ctx, last.seq
        dwords = store(b, out, i + 1, i) + copy_word(b, out, i - 1, 100 + i)
        last = gpu.submit(
            "compute", dwords, bos=[out], ring=i % rings,
            chunks=[(lib.AMDGPU_CHUNK_ID_DEPENDENCIES, chunk)],
        )  # fmt: skip
    early = any(out.words(0, jobs))
    out.write([1], 1000)
    gpu.wait(last, b.job_s)
    if early:
        raise Wrong("a job ran before the one that it depends on", out_of_order=True)
    expect("jobs in a chain", out, list(range(1, jobs + 1)))
    for i in range(1, jobs):
        if out.words(100 + i)[0] != i:
            raise Wrong(f"job {i} did not see what job {i - 1} wrote", out_of_order=True)
    return f"{jobs} jobs over {rings} entities, each behind the last"


def copy_word(b: Bench, buffer: Any, src: int, dst: int) -> list[int]:
    return copy(b, 1, buffer.va + 4 * src, buffer.va + 4 * dst)


def two_contexts(b: Bench) -> str:
    one, two = b.gpu(), b.gpu()
    # Buffers of the two contexts get separate addresses, because the contexts share an address
    # space.
    two.next_va = one.next_va + (1 << 30)
    out = one.buffer(4096, rights="rwu")
    held = one.submit("compute", await_word(b, out, 1) + store(b, out, 2, 1), bos=[out])
    job = two.submit("compute", store(b, out, 3, 2), bos=[out], ring=b.rings("compute") - 1)
    free = two.done(job, min(1.0, b.job_s)) if b.rings("compute") > 1 else True
    out.write([1])
    one.wait(held, b.job_s)
    two.wait(job, b.job_s)
    expect("two contexts", out, [1, 2, 3])
    beside = "beside each other" if free else "one after the other"
    return f"two contexts of one address space ran {beside}"


RUNGS = (
    Rung("fences", "WAIT_CS, WAIT_FENCES, the FENCE chunk", fences, ("wait-reg-mem",)),
    Rung("fence-export", "FENCE_TO_HANDLE: a sync_file", fence_export, ("fences",)),
    Rung("syncobj", "syncobjs by host and by job", syncobj, ("write-data", "caps")),
    Rung("timeline", "timeline syncobjs", timeline, ("syncobj",)),
    Rung("queue-order", "jobs on all compute entities in a chain", order, ("wait-reg-mem",)),
    Rung("two-contexts", "two contexts of one address space", two_contexts, ("wait-reg-mem",)),
)
