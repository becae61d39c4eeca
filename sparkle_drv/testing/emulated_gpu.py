"""The least that a test of packets or shaders needs of an emulated GPU: memory with an address, a
context, submission of dwords, waiting. On `Node.ioctl` alone: no driver, no policy.
"""

from __future__ import annotations

import contextlib
import time
import weakref
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .._emu import ffi, lib
from .emulated_options import one_of

if TYPE_CHECKING:
    from .emulator import Node

__all__ = ["IP", "Buffer", "Gpu", "Job"]

PAGE = 4096
DOMAINS = {
    name: getattr(lib, f"AMDGPU_GEM_DOMAIN_{name.upper()}") for name in ("cpu", "gtt", "vram")
}
OPERATIONS = {
    name: getattr(lib, f"AMDGPU_VA_OP_{name}") for name in ("MAP", "UNMAP", "CLEAR", "REPLACE")
}
IP = {name: getattr(lib, f"AMDGPU_HW_IP_{name.upper()}") for name in ("gfx", "compute", "dma")}
RIGHTS = {
    "r": lib.AMDGPU_VM_PAGE_READABLE,
    "w": lib.AMDGPU_VM_PAGE_WRITEABLE,
    "x": lib.AMDGPU_VM_PAGE_EXECUTABLE,
}
NOP = 0xFFFF1000  # one dword, PM4


def _rights(rights: str) -> int:
    if not isinstance(rights, str):
        raise TypeError(f"rights must be letters of 'rwx', not {type(rights).__name__}")
    if set(rights) - set(RIGHTS):
        raise ValueError(f"rights must be letters of 'rwx', not {rights!r}")
    return sum(RIGHTS[right] for right in set(rights))


class Buffer:
    """A BO that is mapped for the GPU at `va` and, with `map`, for the host. One that is forgotten
    lives as long as its node: arrays over `map` may be what is left of it."""

    def __init__(self, gpu: Gpu, handle: int, nbytes: int, va: int) -> None:
        self.node, self.handle, self.nbytes, self.va = gpu.node, handle, nbytes, va
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
        """The bytes, writable; np.frombuffer takes it. Ends with `close`."""
        if self._map is None:
            args = self.node.call(
                "AMDGPU_GEM_MMAP", "union drm_amdgpu_gem_mmap", handle=self.handle
            )
            self._map = self.node.mmap(self.nbytes, args.out.addr_ptr)
        return memoryview(self._map)

    def words(self, index: int = 0, count: int = 1) -> list[int]:
        """`count` dwords from dword `index` on."""
        return list(self.map.cast("I")[index : index + count])

    def write(self, dwords: Sequence[int], index: int = 0) -> None:
        """Stores dwords from dword `index` on."""
        view = self.map.cast("I")
        for i, value in enumerate(dwords):
            view[index + i] = value & 0xFFFFFFFF

    def close(self) -> None:
        """Unmaps and frees it; jobs that use it keep what they need."""
        if self._map is not None:
            self.node.munmap(self._map)
            self._map = None
        if self.handle:
            self.node.call("GEM_CLOSE", "struct drm_gem_close", handle=self.handle)
            self.handle = 0


class Job(NamedTuple):
    """A submission: what `Gpu.wait` takes."""

    ip: int
    ring: int
    seq: int


class _Owned:
    """What a Gpu has to give back: a context, the IBs of its jobs."""

    def __init__(self, node: Node, ctx: int) -> None:
        self.node, self.ctx = node, ctx
        self.ibs: list[tuple[Job, Buffer]] = []

    def close(self) -> None:
        for _, ib in self.ibs:
            ib.close()
        self.ibs = []
        if self.ctx:
            op = lib.AMDGPU_CTX_OP_FREE_CTX
            self.node.call("AMDGPU_CTX", "union drm_amdgpu_ctx", op=op, ctx_id=self.ctx)
            self.ctx = 0


def _forget(owned: _Owned) -> None:
    """Of a Gpu that nobody holds: there is nobody to tell that node or card went first."""
    with contextlib.suppress(OSError, ValueError):
        owned.close()


class Gpu:
    """One context on a node, addresses given out in order: for tests of packets and shaders. One
    that nobody holds gives its context and IBs back."""

    def __init__(self, node: Node) -> None:
        self.node = node
        args = node.call(
            "AMDGPU_CTX", "union drm_amdgpu_ctx", op=lib.AMDGPU_CTX_OP_ALLOC_CTX, priority=0
        )
        self._owned = _Owned(node, args.out.alloc.ctx_id)
        weakref.finalize(self, _forget, self._owned)

    @property
    def ctx(self) -> int:
        """The context's id; 0 when closed."""
        return self._owned.ctx

    @ctx.setter
    def ctx(self, ctx: int) -> None:
        self._owned.ctx = ctx

    def buffer(
        self,
        nbytes: int,
        *,
        domain: str = "gtt",
        flags: int = 0,
        rights: str = "rwx",
        va: int | None = None,
    ) -> Buffer:
        """Memory of at least `nbytes` (whole pages, zeros), mapped with `rights`; `flags` are those
        of GEM_CREATE. An unmapped page follows each buffer."""
        nbytes = -(-nbytes // PAGE) * PAGE
        domains = DOMAINS[one_of("domain", domain, DOMAINS)]
        bits = _rights(rights)
        ctype = "union drm_amdgpu_gem_create"
        made = self.node.call(
            "AMDGPU_GEM_CREATE", ctype, bo_size=nbytes, domains=domains, domain_flags=flags
        )
        if va is None:
            va = self.node.take_va(nbytes + PAGE)
        buffer = Buffer(self, made.out.handle, nbytes, va)
        self._va(lib.AMDGPU_VA_OP_MAP, buffer, va, nbytes, 0, bits)
        return buffer

    def va(
        self, op: str, buffer: Buffer, *, va: int, nbytes: int, offset: int = 0, rights: str = "rwx"
    ) -> None:
        """GEM_VA; `op` is MAP, UNMAP, CLEAR or REPLACE."""
        number = OPERATIONS[one_of("op", op, OPERATIONS)]
        self._va(number, buffer, va, nbytes, offset, _rights(rights))

    def _va(self, op: int, buffer: Buffer, va: int, nbytes: int, offset: int, flags: int) -> None:
        self.node.call(
            "AMDGPU_GEM_VA",
            "struct drm_amdgpu_gem_va",
            handle=buffer.handle,
            operation=op,
            flags=flags,
            va_address=va,
            offset_in_bo=offset,
            map_size=nbytes,
        )

    def submit(
        self,
        ip: str,
        dwords: Sequence[int],
        *,
        bos: Iterable[Buffer] = (),
        ring: int = 0,
        flags: int = 0,
        pad: bool = True,
        chunks: Iterable[tuple[int, Any]] = (),
    ) -> Job:
        """Copies dwords into an IB of its own, padded to 8 (DMA: 16) with NOPs, and submits it with
        the buffers that it uses. `chunks`: more of (chunk id, cffi struct or array)."""
        one_of("ip", ip, IP)
        words = list(dwords)
        if pad:
            unit, filler = (16, 0) if ip == "dma" else (8, NOP)
            words += [filler] * (-len(words) % unit)
        ib = self.buffer(max(len(words), 1) * 4, rights="rx")
        ib.write(words)
        try:
            job = self.submit_ib(ip, ib, len(words), bos=bos, ring=ring, flags=flags, chunks=chunks)
        except BaseException:
            ib.close()
            raise
        self._owned.ibs.append((job, ib))
        return job

    def submit_ib(
        self,
        ip: str,
        ib: Buffer,
        ndw: int,
        *,
        bos: Iterable[Buffer] = (),
        ring: int = 0,
        flags: int = 0,
        chunks: Iterable[tuple[int, Any]] = (),
    ) -> Job:
        """Submits what is in a buffer already."""
        number = IP[one_of("ip", ip, IP)]
        listed = [ib, *bos]
        entries = ffi.new("struct drm_amdgpu_bo_list_entry[]", [(bo.handle, 0) for bo in listed])
        bo_list = ffi.new("struct drm_amdgpu_bo_list_in *")
        bo_list.operation = bo_list.list_handle = 0xFFFFFFFF
        bo_list.bo_number = len(listed)
        bo_list.bo_info_size = ffi.sizeof("struct drm_amdgpu_bo_list_entry")
        bo_list.bo_info_ptr = int(ffi.cast("uintptr_t", entries))
        chunk = ffi.new("struct drm_amdgpu_cs_chunk_ib *")
        chunk.flags, chunk.va_start, chunk.ib_bytes = flags, ib.va, ndw * 4
        chunk.ip_type, chunk.ring = number, ring
        seq = self.cs(
            [
                (lib.AMDGPU_CHUNK_ID_IB, chunk),
                (lib.AMDGPU_CHUNK_ID_BO_HANDLES, bo_list),
                *chunks,
            ]
        )
        return Job(number, ring, seq)

    def cs(self, chunks: Iterable[tuple[int, Any]], *, bo_list: int = 0) -> int:
        """CS with (chunk id, cffi struct pointer or array) each; the sequence number."""
        given = list(chunks)
        array = ffi.new("struct drm_amdgpu_cs_chunk[]", max(len(given), 1))
        pointers = ffi.new("uint64_t[]", max(len(given), 1))
        for i, (kind, data) in enumerate(given):
            of = ffi.typeof(data)
            nbytes = ffi.sizeof(data) if of.kind == "array" else ffi.sizeof(of.item)
            array[i].chunk_id, array[i].length_dw = kind, nbytes // 4
            array[i].chunk_data = int(ffi.cast("uintptr_t", data))
            pointers[i] = int(ffi.cast("uintptr_t", array + i))
        args = self.node.call(
            "AMDGPU_CS",
            "union drm_amdgpu_cs",
            ctx_id=self.ctx,
            bo_list_handle=bo_list,
            num_chunks=len(given),
            chunks=int(ffi.cast("uintptr_t", pointers)),
        )
        return int(args.out.handle)

    def wait(self, job: Job, timeout_s: float = 10.0) -> None:
        """Until the job is done: TimeoutError, or OSError when it failed, naming the fault."""
        deadline = time.monotonic_ns() + int(timeout_s * 1e9)
        try:
            args = self.node.call(
                "AMDGPU_WAIT_CS",
                "union drm_amdgpu_wait_cs",
                handle=job.seq,
                timeout=deadline,
                ip_type=job.ip,
                ring=job.ring,
                ctx_id=self.ctx,
            )
        except OSError as error:
            card = lib.sp_emu_fd_card(self.node.machine.handle, self.node.fd)
            fault = self.node.machine.fault(card) if card >= 0 else None
            raise OSError(error.errno, f"{error.strerror}; last fault: {fault}") from None
        finally:
            self._collect(job)
        if args.out.status:
            raise TimeoutError(f"{job} is not done after {timeout_s} s")

    def _collect(self, done: Job) -> None:
        """Frees the IBs of this entity up to `done`: GEM_CLOSE leaves jobs that still run alone."""
        owned = self._owned
        mine = [(j, ib) for j, ib in owned.ibs if j[:2] == done[:2] and j.seq <= done.seq]
        owned.ibs = [pair for pair in owned.ibs if pair not in mine]
        for _, ib in mine:
            ib.close()

    def close(self) -> None:
        """Frees the context and what `submit` made; buffers are the caller's."""
        self._owned.close()

    def __enter__(self) -> Gpu:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
