"""Structures in memory that shaders and loaders read: the kernel descriptor, the buffer resource of
scratch memory.

The kernel descriptor is declared after ROCr's amd_hsa_kernel_code.h and the output of clang 16 and
19. The buffer resource is filled as ROCr, Mesa and tinygrad fill it for scratch memory, on gfx9 to
gfx10.3. gfx11 needs none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .bits import U32, U64, Record, Word, bits, level


class Structure(Record):
    """A record of fixed size without a header."""

    def __init_subclass__(cls, *, name: str):
        cls.declare(None, name)

    @classmethod
    def encode(cls, *, gfx: float = 11, **values: Any) -> list[int]:
        """Returns the structure as dwords. A field that is not given is 0."""
        return cls.encode_elements(level(gfx), values)

    @classmethod
    def decode(cls, dwords: Sequence[int], gfx: float = 11) -> dict[str, Any]:
        """Returns all fields. Raises ValueError for a wrong length or a reserved bit that
        is set.
        """
        cls.check_length(len(dwords))
        return cls.decode_elements(level(gfx), dwords)


class KernelDescriptor(Structure, name="kernel descriptor"):
    """The kernel descriptor: 64 bytes in .rodata at the symbol `<kernel>.kd`. Its RSRC words go
    into registers unchanged, except for LDS_SIZE, which is 0 here.
    """

    group_segment_fixed_size = U32()  # LDS bytes of a workgroup
    private_segment_fixed_size = U32()  # scratch bytes of a lane
    kernarg_size = U32()
    reserved12 = Word()
    kernel_code_entry_byte_offset = U64()  # signed distance from the address of the descriptor
    reserved24, reserved28, reserved32, reserved36, reserved40 = (Word() for _ in range(5))
    compute_pgm_rsrc3 = U32()
    compute_pgm_rsrc1 = U32()
    compute_pgm_rsrc2 = U32()
    # User SGPRs are assigned in the order of these bits, from s0 on. The number in the comment
    # beside a bit says how many SGPRs it takes.
    properties = Word(
        enable_private_segment_buffer=bits(0),  # 4
        enable_dispatch_ptr=bits(1),  # 2
        enable_queue_ptr=bits(2),  # 2
        enable_kernarg_segment_ptr=bits(3),  # 2
        enable_dispatch_id=bits(4),  # 2
        enable_flat_scratch_init=bits(5),  # 2; fault: scratch
        enable_private_segment_size=bits(6),  # 1
        enable_wavefront_size32=bits(10),
        uses_dynamic_stack=bits(11),
        kernarg_preload_length=bits(16, 22),  # in dwords; only gfx90a and gfx94x have preload
        kernarg_preload_offset=bits(23, 31),
    )
    reserved60 = Word()


class ScratchResource(Structure, name="scratch resource"):
    """The buffer resource in s[0:3] of a kernel that uses scratch memory, on gfx9 to gfx10.3."""

    base_lo = U32()
    base_hi = Word(base=bits(0, 15), swizzle_enable=bits(31, gfx=(9, 10)))
    num_records = U32(0xFFFFFFFF)
    word3 = Word(
        dst_sel=bits(0, 11),  # three bits for each channel: 4, 5, 6, 7 are x, y, z, w
        format=bits(12, 18, gfx=(10,)),
        index_stride=bits(21, 22, gfx=(10,)),  # 2 in kernels for wave32, 3 for wave64
        add_tid_enable=bits(23, gfx=(10,)),
        resource_level=bits(24, gfx=(10,)),
        oob_select=bits(28, 29, gfx=(10,)),
        type=bits(30, 31),
    )
