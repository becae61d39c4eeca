"""The instruction sets that this machine can run the cpu device's kernels on; not a test."""

from contextlib import contextmanager

import pytest
from sparkle_drv._native import lib

import sparkle_drv as sp
from sparkle_drv.backends.cpu.backend import ISAS

HERE = tuple(name for isa, name in ISAS.items() if lib.sp_cpu_isa_mask() >> isa & 1)


@contextmanager
def usual_and_past(isa):
    """A device as it is, and one whose caches hold a byte: results go past them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARKLE_CPU_ISA", isa)
        with sp.open("cpu") as usual, sp.open("cpu") as past:
            past.kept["ops last cache"] = 1
            yield usual, past
