"""A minimal GPU for tests of packets or shaders. It maps buffers at GPU addresses, makes a context,
submits dwords, and waits for jobs with a time limit. Everything goes through `DrmNode.ioctl`: no
backend is involved.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

from sparkle_drv.errors import leave

from .raw import DrmNode, ffi, lib, pointer

__all__ = [
    "DOMAINS", "IP", "NOP", "OPERATIONS", "PAGE", "RIGHTS", "BufferObject", "Gpu", "Job", "Late"
]  # fmt: skip

PAGE = 4096
DOMAINS = {n: getattr(lib, f"AMDGPU_GEM_DOMAIN_{n.upper()}") for n in ("cpu", "gtt", "vram")}
OPERATIONS = {n: getattr(lib, f"AMDGPU_VA_OP_{n}") for n in ("MAP", "UNMAP", "CLEAR", "REPLACE")}
IP = {n: getattr(lib, f"AMDGPU_HW_IP_{n.upper()}") for n in ("gfx", "compute", "dma")}
RIGHTS = {
    "r": lib.AMDGPU_VM_PAGE_READABLE,
    "w": lib.AMDGPU_VM_PAGE_WRITEABLE,
    "x": lib.AMDGPU_VM_PAGE_EXECUTABLE,
    # Memory that the GPU does not cache: for dwords that the host writes while a job polls them.
    # RADV maps its events this way, IGT its fences.
    "u": lib.AMDGPU_VM_MTYPE_UC,
}
NOP = 0xFFFF1000  # the PM4 NOP of one dword
# padding of IBs, as in Mesa: multiple in dwords, filler
PAD = {"gfx": (8, NOP), "compute": (8, NOP), "dma": (16, 0)}


def one_of(argument: str, value: object, known: Collection[str]) -> str:
    """Returns `value` if it is one of the known words. Raises TypeError or ValueError otherwise."""
    if not isinstance(value, str):
        raise TypeError(f"{argument}: expected a string, got {type(value).__name__}")
    if value not in known:
        raise ValueError(f"{argument}: expected one of {', '.join(known)}, got {value!r}")
    return value


def _rights(rights: str) -> int:
    if not isinstance(rights, str):
        raise TypeError(
            f"rights: expected letters of {''.join(RIGHTS)!r}, got {type(rights).__name__}"
        )
    if set(rights) - set(RIGHTS):
        raise ValueError(f"rights: expected letters of {''.join(RIGHTS)!r}, got {rights!r}")
    return sum(RIGHTS[right] for right in set(rights))


class Late(TimeoutError):
    """A job has not ended in time. `job` is that job."""

    def __init__(self, job: Job, timeout_s: float) -> None:
        super().__init__(f"{job} is not done after {timeout_s:g} s")
        self.job = job


class Job(NamedTuple):
    """A submission. `ring` is the index of the entity in its context."""

    ip: str
    ring: int
    seq: int

    def __str__(self) -> str:
        return f"job {self.seq} of {self.ip}[{self.ring}]"


class BufferObject:
    """A BO. `va` is its GPU address, or 0 if the GPU does not map it. `map` maps it for the
    host.
    """

    def __init__(self, node: DrmNode, handle: int, nbytes: int, va: int = 0) -> None:
        self.node, self.handle, self.nbytes, self.va = node, handle, nbytes, va
        self._map: Any = None

    @property
    def lo(self) -> int:
        """Bits 0-31 of `va`."""
        return self.va & 0xFFFFFFFF

    @property
    def hi(self) -> int:
        """Bits 32-63 of `va`."""
        return self.va >> 32

    @property
    def map(self) -> memoryview:
        """Returns the bytes of the buffer, writable until `close`."""
        if self._map is None:
            args = self.node.call(
                "AMDGPU_GEM_MMAP", "union drm_amdgpu_gem_mmap", handle=self.handle
            )
            self._map = self.node.mmap(self.nbytes, args.out.addr_ptr)
        return memoryview(self._map)

    def words(self, index: int = 0, count: int = 1) -> list[int]:
        """Returns `count` dwords from dword `index` on."""
        return list(self.map.cast("I")[index : index + count])

    def write(self, dwords: Sequence[int], index: int = 0) -> None:
        """Stores `dwords` from dword `index` on."""
        view = self.map.cast("I")
        for i, value in enumerate(dwords):
            view[index + i] = value & 0xFFFFFFFF

    def close(self) -> None:
        """Frees the buffer. The kernel driver keeps the memory for jobs that still use it."""
        if self._map is not None:
            self.node.munmap(self._map)
            self._map = None
        if self.handle:
            handle, self.handle = self.handle, 0
            self.node.call("GEM_CLOSE", "struct drm_gem_close", handle=handle)


def free_context(node: DrmNode, ctx: int) -> None:
    """Calls FREE_CTX, unless `ctx` is 0, which means no context."""
    if ctx:
        op = lib.AMDGPU_CTX_OP_FREE_CTX
        node.call("AMDGPU_CTX", "union drm_amdgpu_ctx", op=op, ctx_id=ctx)


class Gpu:
    """One context on a render node, with buffers. `va` is the first GPU address to give to them."""

    def __init__(self, node: DrmNode, *, va: int = 1 << 32) -> None:
        self.node, self.next_va = node, va
        made = node.call(
            "AMDGPU_CTX", "union drm_amdgpu_ctx", op=lib.AMDGPU_CTX_OP_ALLOC_CTX, priority=0
        )
        self.ctx = int(made.out.alloc.ctx_id)
        # the newest jobs, with their dwords and the addresses of their IBs
        self.jobs: list[tuple[Job, list[int], int]] = []
        self._owned: list[BufferObject] = []

    def create(self, nbytes: int, domain: str = "gtt", flags: int = 0) -> BufferObject:
        """Makes a buffer of whole pages by GEM_CREATE. It has no GPU address yet. `flags` are
        AMDGPU_GEM_CREATE_...
        """
        nbytes = -(-nbytes // PAGE) * PAGE
        args = self.node.call(
            "AMDGPU_GEM_CREATE",
            "union drm_amdgpu_gem_create",
            bo_size=nbytes,
            domains=DOMAINS[one_of("domain", domain, DOMAINS)],
            domain_flags=flags,
        )
        return self._own(BufferObject(self.node, args.out.handle, nbytes))

    def _own(self, buffer: BufferObject) -> BufferObject:
        """Registers a buffer, so that `close` frees it."""
        self._owned.append(buffer)
        return buffer

    def take_va(self, nbytes: int) -> int:
        """Reserves free addresses and returns the first. An unmapped page follows them."""
        va = self.next_va
        self.next_va += -(-nbytes // PAGE) * PAGE + PAGE
        return va

    def buffer(
        self, nbytes: int, *, domain: str = "gtt", flags: int = 0, rights: str = "rwx",
        va: int | None = None,
    ) -> BufferObject:  # fmt: skip
        """Makes a buffer of at least `nbytes` zeros, and maps it for the GPU with `rights` (letters
        of RIGHTS). The GPU address is `va`, or a free address if `va` is None.
        """
        _rights(rights)  # checked before there is a buffer to free
        buffer = self.create(nbytes, domain, flags | lib.AMDGPU_GEM_CREATE_VRAM_CLEARED)
        buffer.va = self.take_va(buffer.nbytes) if va is None else va
        self.va("MAP", buffer, buffer.va, buffer.nbytes, rights=rights)
        return buffer

    def adopt(self, handle: int, nbytes: int, *, rights: str = "rw") -> BufferObject:
        """Makes a buffer of a BO handle from elsewhere (PRIME, userptr). Maps it for the GPU."""
        buffer = self._own(BufferObject(self.node, handle, nbytes, self.take_va(nbytes)))
        self.va("MAP", buffer, buffer.va, nbytes, rights=rights)
        return buffer

    def va(
        self, op: str, buffer: BufferObject | None, va: int, nbytes: int, *, offset: int = 0,
        rights: str = "rwx",
    ) -> None:  # fmt: skip
        """Calls GEM_VA. `op` is "MAP", "UNMAP", "CLEAR" or "REPLACE"."""
        self.node.call(
            "AMDGPU_GEM_VA",
            "struct drm_amdgpu_gem_va",
            handle=buffer.handle if buffer else 0,
            operation=OPERATIONS[one_of("op", op, OPERATIONS)],
            flags=_rights(rights),
            va_address=va,
            offset_in_bo=offset,
            map_size=nbytes,
        )

    def submit(
        self, ip: str, dwords: Sequence[int], *, bos: Iterable[BufferObject] = (), ring: int = 0,
        flags: int = 0, pad: bool = True, chunks: Iterable[tuple[int, Any]] = (),
        sync: bool = True,
    ) -> Job:  # fmt: skip
        """Copies the dwords, with padding, into a new buffer and submits that buffer as an IB.
        `bos` are the buffers that the dwords use. `chunks` are additional chunks of the CS ioctl:
        (chunk id, cffi struct pointer or array). `sync` is that of `submit_ib`.
        """
        unit, filler = PAD[one_of("ip", ip, IP)]
        words = list(dwords)
        if pad:
            words = words + [filler] * (-len(words) % unit) or [filler] * unit
        ib = self.buffer(max(len(words), 1) * 4, rights="rx")
        ib.write(words)
        try:
            job = self.submit_ib(
                ip, ib, len(words), bos=bos, ring=ring, flags=flags, chunks=chunks, sync=sync
            )
        except BaseException:
            ib.close()
            raise
        self._sent(job, words, ib)
        return job

    def _sent(self, job: Job, words: list[int], ib: BufferObject) -> None:
        self.jobs = [*self.jobs[-7:], (job, words, ib.va)]

    def submit_ib(
        self, ip: str, ib: BufferObject, ndw: int, *, bos: Iterable[BufferObject] = (),
        ring: int = 0, flags: int = 0, chunks: Iterable[tuple[int, Any]] = (), sync: bool = True,
    ) -> Job:  # fmt: skip
        """Submits the first `ndw` dwords of the buffer `ib`. With `sync`, the kernel driver flushes
        caches before a job of the copy engine's ring.
        """
        listed = [ib, *bos]
        entries = ffi.new("struct drm_amdgpu_bo_list_entry[]", [(bo.handle, 0) for bo in listed])
        bo_list = ffi.new("struct drm_amdgpu_bo_list_in *")
        bo_list.operation = bo_list.list_handle = 0xFFFFFFFF
        bo_list.bo_number = len(listed)
        bo_list.bo_info_size = ffi.sizeof("struct drm_amdgpu_bo_list_entry")
        bo_list.bo_info_ptr = pointer(entries)
        chunk = ffi.new("struct drm_amdgpu_cs_chunk_ib *")
        chunk.va_start, chunk.ib_bytes = ib.va, ndw * 4
        chunk.ip_type, chunk.ring = IP[one_of("ip", ip, IP)], ring
        # No packet in a user's IB can flush caches on the copy engine's ring.
        chunk.flags = flags | (lib.AMDGPU_IB_FLAG_EMIT_MEM_SYNC if sync and ip == "dma" else 0)
        given = [(lib.AMDGPU_CHUNK_ID_IB, chunk), (lib.AMDGPU_CHUNK_ID_BO_HANDLES, bo_list)]
        return Job(ip, ring, self.cs([*given, *chunks]))

    def cs(self, chunks: Iterable[tuple[int, Any]], *, bo_list: int = 0) -> int:
        """Calls CS with `chunks`, each a chunk id and a cffi struct pointer or array. Returns the
        job's sequence number.
        """
        pairs = list(chunks)
        array = ffi.new("struct drm_amdgpu_cs_chunk[]", max(len(pairs), 1))
        pointers = ffi.new("uint64_t[]", max(len(pairs), 1))
        for i, (kind, data) in enumerate(pairs):
            of = ffi.typeof(data)
            nbytes = ffi.sizeof(data) if of.kind == "array" else ffi.sizeof(of.item)
            array[i].chunk_id, array[i].length_dw = kind, nbytes // 4
            array[i].chunk_data = pointer(data)
            pointers[i] = pointer(array + i)
        args = self.node.call(
            "AMDGPU_CS",
            "union drm_amdgpu_cs",
            ctx_id=self.ctx,
            bo_list_handle=bo_list,
            num_chunks=len(pairs),
            chunks=pointer(pointers),
        )
        return int(args.out.handle)

    def done(self, job: Job, timeout_s: float) -> bool:
        """Returns whether a job ends within `timeout_s`, by WAIT_CS. Raises IoctlError if the job
        failed.
        """
        args = self.node.call(
            "AMDGPU_WAIT_CS",
            "union drm_amdgpu_wait_cs",
            handle=job.seq,
            timeout=time.monotonic_ns() + int(timeout_s * 1e9),
            ip_type=IP[job.ip],
            ring=job.ring,
            ctx_id=self.ctx,
        )
        return int(args.out.status) == 0

    def wait(self, job: Job, timeout_s: float) -> None:
        """Waits until a job has ended. Raises Late at the timeout, IoctlError if the job failed."""
        if not self.done(job, timeout_s):
            raise Late(job, timeout_s)

    def state(self) -> int:
        """Returns the flags AMDGPU_CTX_QUERY2_FLAGS_... of the context, by QUERY_STATE2."""
        op = lib.AMDGPU_CTX_OP_QUERY_STATE2
        done = self.node.call("AMDGPU_CTX", "union drm_amdgpu_ctx", op=op, ctx_id=self.ctx)
        return int(done.out.state.flags)

    def close(self) -> None:
        """Frees all buffers and the context."""
        owned, self._owned = self._owned, []
        for buffer in reversed(owned):
            buffer.close()
        ctx, self.ctx = self.ctx, 0
        free_context(self.node, ctx)

    def __enter__(self) -> Gpu:
        return self

    def __exit__(self, kind: object, error: BaseException | None, *_: object) -> None:
        leave(self.close, error)
