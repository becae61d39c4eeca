"""tinygrad's instruction tests on the emulated GPU, whose expected values silicon gave.

`TINYGRAD=CHECKOUT python tests/foreign/tinygrad_values.py`: the tests of test/amd/hw for gfx11. A
line for each that is not right, then `N of M right`. The tests call `run_program_emu` of their
helpers for each program. This module replaces that function, so that their emulator has no part.
"""

from __future__ import annotations

import functools
import io
import os
import struct
import sys
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sparkle_drv.amd.kmd.gpu import Gpu
from sparkle_drv.amd.kmd.raw import IoctlError
from sparkle_drv.testing.emulated_dispatch import launch
from sparkle_drv.testing.emulator import Machine

# Instructions of other families: gfx9 and gfx12.
OTHER_FAMILIES = ("test_cdna", "test_rdna4")
# The state in which the helpers launch on silicon, by the kernel descriptor that they write. What
# it does not name has the default of LLVM's AMDGPU usage document: denormals of 16 and 64 bits are
# kept, DX10_CLAMP and IEEE_MODE are set.
RSRC1 = 0xC0 << 12 | 1 << 21 | 1 << 23 | 1 << 30
USER_SGPRS, LDS_NBYTES, SCRATCH_NBYTES = 2, 65536, 65536
# USER_SGPR, TGID_X_EN to TGID_Z_EN, LDS_SIZE in units of 512 bytes.
RSRC2 = 1 | USER_SGPRS << 1 | 7 << 7 | LDS_NBYTES // 512 << 15
WAVES, ENGINES, UNIT = 4, 6, 256  # of TMPRING_SIZE on gfx11: waves of an engine, bytes of a unit


chips = ["gfx1100"]
"""The chip of the next program is the last."""


def run(code: bytes, out_nbytes: int, lanes: int, wave: int = 32) -> bytes:
    """Runs a program of one group on a new emulated card. Its first user SGPRs have the address of
    a pointer to `out_nbytes` zeros. Returns what these bytes are at the end.
    """
    with Machine(chips[-1:]) as machine, Gpu(machine.open()) as gpu:
        program = gpu.buffer(len(code) + 256, rights="rx")  # the wave fetches behind S_ENDPGM
        program.map[: len(code)] = code
        out = gpu.buffer(out_nbytes)
        arguments = gpu.buffer(4096, rights="r")
        arguments.map[:8] = struct.pack("<Q", out.va)
        units = SCRATCH_NBYTES * wave // UNIT
        scratch = gpu.buffer(units * UNIT * WAVES * ENGINES)
        ib = launch(
            11, code=program.va, rsrc1=RSRC1 | wave - 1, rsrc2=RSRC2,
            user=(arguments.lo, arguments.hi),
            size=(lanes, 1, 1), wave=wave, tmpring=WAVES | units << 12, scratch=scratch.va,
        )  # fmt: skip
        job = gpu.submit("compute", ib, bos=[program, out, arguments, scratch])
        try:
            gpu.wait(job, 20)
        except IoctlError as error:
            fault = machine.fault()
            raise AssertionError(fault.text if fault else str(error)) from None
        return bytes(out.map[:out_nbytes])


def redirect(helpers: Any, dpp: Any) -> None:
    """Has their tests run their programs here. test_dpp.py has a function of its own."""

    def run_program_emu(instructions: list[Any], n_lanes: int = 1) -> Any:
        before, after = helpers.get_prologue_epilogue(n_lanes)
        code = helpers.assemble(before + instructions + after)
        return helpers.parse_output(run(code, helpers._out_bytes(n_lanes), n_lanes), n_lanes)

    def run_wave64(instructions: list[Any], out_reg: int = 1) -> list[int]:
        code = dpp._wave64_code(instructions, out_reg)
        return list(struct.unpack("<64I", run(code, 4 * 64, 64, wave=64)))

    helpers.run_program_emu = run_program_emu
    dpp._run_wave64_emu = run_wave64


def on_gfx1150(major: int, minor: int = 0, reason: str = "") -> Callable[[Any], Any]:
    """In place of `skip_unless_gfx`: a test of newer instructions runs on the emulated gfx1150."""
    if (major, minor) != (11, 5):
        return unittest.skip(reason)

    def mark(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run_test(case: unittest.TestCase) -> None:
            chips.append("gfx1150")
            case.addCleanup(chips.pop)
            test(case)

        return run_test

    return mark


def main() -> int:
    checkout = Path(os.environ.get("TINYGRAD") or "missing")
    folder = checkout / "test/amd/hw"
    if not folder.is_dir():
        print("TINYGRAD names no checkout of tinygrad")
        return 2
    sys.path.insert(0, str(checkout))
    os.environ.setdefault("CACHELEVEL", "0")
    from test.amd.hw import helpers  # type: ignore[import-not-found]

    helpers.skip_unless_gfx = on_gfx1150
    from test.amd.hw import test_dpp  # type: ignore[import-not-found]

    redirect(helpers, test_dpp)
    names = sorted(path.stem for path in folder.glob("test_*.py"))
    names = [f"test.amd.hw.{name}" for name in names if not name.startswith(OTHER_FAMILIES)]
    suite = unittest.defaultTestLoader.loadTestsFromNames(names)
    result = unittest.TextTestRunner(io.StringIO()).run(suite)
    wrong = {}
    for test, text in [*result.failures, *result.errors]:
        wrong.setdefault(test.id().removeprefix("test.amd.hw."), text.strip().splitlines()[-1])
    for name, text in sorted(wrong.items()):
        print(f"{name}: {text}")
    total = result.testsRun - len(result.skipped)
    print(f"{total - len(wrong)} of {total} right")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
