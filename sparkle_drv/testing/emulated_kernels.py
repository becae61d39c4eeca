"""Kernels of an HSA code object on an emulated card: loaded, and launched by their descriptors.

Tests and benchmarks of the emulator use this module. It reads no metadata of the code object. The
kernel descriptor and the initial register state are those of LLVM's AMDGPU usage document, code
object V3. The AQL packet is from the HSA platform specification.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

from sparkle_drv.amd.code import image
from sparkle_drv.amd.code.elf import Elf
from sparkle_drv.amd.kmd.gpu import BufferObject, Gpu
from sparkle_drv.amd.tables.granules import lds_units

from .emulated_dispatch import launch

__all__ = ["CardKernels"]

GFX = {"gfx1036": 10, "gfx1100": 11}
# Fields of a kernel descriptor: bytes of LDS, bytes of scratch per thread, offset of the entry
# point, COMPUTE_PGM_RSRC3, COMPUTE_PGM_RSRC1, COMPUTE_PGM_RSRC2, kernel code properties.
DESCRIPTOR = struct.Struct("<II8xq20xIIIH6x")
AQL_AT = 2048  # offset of the AQL packet, which follows the arguments


class CardKernels:
    """The code object of a file, loaded on a card. `launch` runs one of its kernels and waits."""

    def __init__(self, gpu: Gpu, chip: str, path: str | Path) -> None:
        self.gpu, self.chip, self.gfx = gpu, chip, GFX[chip]
        elf = Elf(Path(path).read_bytes())
        laid = image.lay_out(elf)
        self.image = gpu.buffer(laid.nbytes, rights="rx")
        self.image.map[:] = laid.place(self.image.va)
        strings = elf.strings()
        names = {strings[s.name :].partition(b"\0")[0].decode(): s.value for s in elf.symbols()}
        self.descriptors = {
            name[:-3]: laid.offset(at) for name, at in names.items() if name.endswith(".kd")
        }

    def close(self) -> None:
        """Frees the loaded image."""
        self.image.close()

    def __enter__(self) -> CardKernels:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def launch(
        self,
        name: str,
        args: Sequence[BufferObject | int],
        groups: int,
        *,
        size: int = 64,
        timeout_s: float = 20.0,
    ) -> None:
        """Launches a one-dimensional grid of groups of `size` threads. `args` are buffers or 32-bit
        ints.
        """
        at = self.descriptors[name]
        lds, private, entry, rsrc3, rsrc1, rsrc2, properties = DESCRIPTOR.unpack(
            self.image.map[at : at + DESCRIPTOR.size]
        )
        wave = 32 if properties & 0x400 else 64
        own = [self._arguments(args, groups, size)]
        scratch, tmpring = 0, 0
        if private:
            buffer, tmpring = self._scratch(private * wave)
            own.append(buffer)
            scratch = buffer.va
        ib = launch(
            self.gfx,
            code=self.image.va + at + entry,
            rsrc1=rsrc1,
            rsrc2=rsrc2 | lds_units(lds) << 15,
            rsrc3=rsrc3,
            user=user_sgprs(properties, own[0], scratch, private, wave),
            groups=(groups, 1, 1),
            size=(size, 1, 1),
            wave=wave,
            tmpring=tmpring,
            scratch=scratch,
        )
        used = [arg for arg in args if isinstance(arg, BufferObject)]
        try:
            job = self.gpu.submit("compute", ib, bos=[self.image, *used, *own])
            self.gpu.wait(job, timeout_s)
        finally:
            for buffer in own:
                buffer.close()

    def _arguments(
        self, args: Sequence[BufferObject | int], groups: int, size: int
    ) -> BufferObject:
        """Returns a buffer with the arguments, and with the AQL dispatch packet, in which clang's
        code reads the sizes of group and grid.
        """
        packed = b"".join(
            struct.pack("<i", arg) if isinstance(arg, int) else struct.pack("<Q", arg.va)
            for arg in args
        )
        aql = struct.pack("<6H3I", 0, 1, size, 1, 1, 0, size * groups, 1, 1)
        buffer = self.gpu.buffer(4096, rights="r")
        buffer.map[: len(packed)] = packed
        buffer.map[AQL_AT : AQL_AT + len(aql)] = aql
        return buffer

    def _scratch(self, nbytes: int) -> tuple[BufferObject, int]:
        """Returns scratch memory for waves of `nbytes` each, and its TMPRING_SIZE.

        This register has the size of a wave's memory and a number of waves. On gfx11 the size is in
        units of 256 bytes, and the waves are those of one of 6 shader engines. On gfx10 the size is
        in units of 1024 bytes, and the waves are those of the whole card.
        """
        unit, waves, engines = (256, 8, 6) if self.gfx == 11 else (1024, 32, 1)
        units = -(-nbytes // unit)
        return self.gpu.buffer(units * unit * waves * engines), waves | units << 12


def user_sgprs(
    properties: int, arguments: BufferObject, scratch: int, private: int, wave: int
) -> list[int]:
    """Returns the user SGPRs that `kernel_code_properties` asks for, in the order of its bits."""
    user: list[int] = []
    if properties & 1:
        word3 = 0x21C14FAC if wave == 32 else 0x21E14FAC  # INDEX_STRIDE
        user += [scratch & 0xFFFFFFFF, scratch >> 32 | 1 << 31, 0xFFFFFFFF, word3]
    for bit, values in (
        (1, (arguments.lo + AQL_AT, arguments.hi)),
        (2, (0, 0)),  # queue
        (3, (arguments.lo, arguments.hi)),
        (4, (0, 0)),
        (5, (scratch & 0xFFFFFFFF, scratch >> 32)),
        (6, (private,)),
    ):
        user += values if properties >> bit & 1 else ()
    return user
