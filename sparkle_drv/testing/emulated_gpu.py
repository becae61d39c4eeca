"""The least that a test of packets or shaders needs of an emulated GPU: memory with an address, a
context, submission of dwords, waiting. On `Node.ioctl` alone: no driver, no policy.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .._emu import ffi, lib

if TYPE_CHECKING:
    from .emulator import Node

__all__ = ["IP", "Buffer", "Gpu", "Job"]

PAGE = 4096
IP = {"gfx": 0, "compute": 1, "dma": 2}
NOP = 0xFFFF1000  # one dword, PM4


class Buffer:
    """A BO that is mapped for the GPU at `va` and, with `map`, for the host."""

    def __init__(self, gpu: Gpu, handle: int, nbytes: int, va: int) -> None:
        self.gpu, self.handle, self.nbytes, self.va = gpu, handle, nbytes, va
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
            args = self.gpu.node.call(
                "AMDGPU_GEM_MMAP", "union drm_amdgpu_gem_mmap", handle=self.handle
            )
            self._map = self.gpu.node.mmap(self.nbytes, args.out.addr_ptr)
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
            self.gpu.node.munmap(self._map)
            self._map = None
        if self.handle:
            self.gpu.node.call("GEM_CLOSE", "struct drm_gem_close", handle=self.handle)
            self.handle = 0


class Job(NamedTuple):
    """A submission: what `Gpu.wait` takes."""

    ip: int
    ring: int
    seq: int


class Gpu:
    """One context on a node, addresses given out in order: for tests of packets and shaders."""

    def __init__(self, node: Node) -> None:
        self.node = node
        args = node.call(
            "AMDGPU_CTX", "union drm_amdgpu_ctx", op=lib.AMDGPU_CTX_OP_ALLOC_CTX, priority=0
        )
        self.ctx = args.out.alloc.ctx_id
        self._ibs: list[tuple[Job, Buffer]] = []

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
        domains = getattr(lib, f"AMDGPU_GEM_DOMAIN_{domain.upper()}")
        ctype = "union drm_amdgpu_gem_create"
        made = self.node.call(
            "AMDGPU_GEM_CREATE", ctype, bo_size=nbytes, domains=domains, domain_flags=flags
        )
        if va is None:
            va = self.node.take_va(nbytes + PAGE)
        buffer = Buffer(self, made.out.handle, nbytes, va)
        self.va("MAP", buffer, va=va, nbytes=nbytes, rights=rights)
        return buffer

    def va(
        self, op: str, buffer: Buffer, *, va: int, nbytes: int, offset: int = 0, rights: str = "rwx"
    ) -> None:
        """GEM_VA; `op` is MAP, UNMAP, CLEAR or REPLACE."""
        bits = {"r": 2, "w": 4, "x": 8}
        self.node.call(
            "AMDGPU_GEM_VA",
            "struct drm_amdgpu_gem_va",
            handle=buffer.handle,
            operation=getattr(lib, f"AMDGPU_VA_OP_{op}"),
            flags=sum(bits[right] for right in rights),
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
        self._ibs.append((job, ib))
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
        listed = [ib, *bos]
        entries = ffi.new("struct drm_amdgpu_bo_list_entry[]", [(bo.handle, 0) for bo in listed])
        bo_list = ffi.new("struct drm_amdgpu_bo_list_in *")
        bo_list.operation = bo_list.list_handle = 0xFFFFFFFF
        bo_list.bo_number, bo_list.bo_info_size = len(listed), 8
        bo_list.bo_info_ptr = int(ffi.cast("uintptr_t", entries))
        chunk = ffi.new("struct drm_amdgpu_cs_chunk_ib *")
        chunk.flags, chunk.va_start, chunk.ib_bytes = flags, ib.va, ndw * 4
        chunk.ip_type, chunk.ring = IP[ip], ring
        seq = self.cs([(1, chunk), (6, bo_list), *chunks])
        return Job(IP[ip], ring, seq)

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
        mine = [(j, ib) for j, ib in self._ibs if j[:2] == done[:2] and j.seq <= done.seq]
        self._ibs = [pair for pair in self._ibs if pair not in mine]
        for _, ib in mine:
            ib.close()

    def close(self) -> None:
        """Frees the context and what `submit` made; buffers are the caller's."""
        for _, ib in self._ibs:
            ib.close()
        self._ibs = []
        if self.ctx:
            self.node.call(
                "AMDGPU_CTX",
                "union drm_amdgpu_ctx",
                op=lib.AMDGPU_CTX_OP_FREE_CTX,
                ctx_id=self.ctx,
            )
            self.ctx = 0

    def __enter__(self) -> Gpu:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
