"""What tools and bring-up may use below the public API: packets, registers, code objects, the ISA.

Names only. Nothing here is stable between versions.
"""

from .backends.amdgpu import isa, isa_formats, isa_rows

__all__ = ["isa", "isa_formats", "isa_rows"]
