"""The instruction sets that this machine can run the cpu device's kernels on; not a test."""

from sparkle_drv._native import lib

from sparkle_drv.backends.cpu.backend import ISAS

HERE = tuple(name for isa, name in ISAS.items() if lib.sp_cpu_isa_mask() >> isa & 1)
