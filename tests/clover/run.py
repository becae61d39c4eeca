"""Runs the programs of programs.py on the only OpenCL device there is; a line for each.

Exit code 0: all are right. tests/emu/drivers/test_clover.py runs it behind the preload library.
"""

from __future__ import annotations

import ctypes
import sys
import zlib

import numpy as np
from opencl import Device, Failed
from programs import GROUP, PROGRAMS, THREADS, judge


def outcome(device: Device, built: ctypes.c_void_p, name: str) -> str:
    program = PROGRAMS[name]
    arguments = program.arguments(np.random.default_rng(zlib.crc32(name.encode())))
    try:
        out, *_ = device.run(built, name, arguments, THREADS, GROUP)
    except Failed as error:
        return str(error)
    return judge(program, arguments, out) or "right"


def main() -> int:
    device = Device()
    print(device.name())
    built = device.build("\n".join(program.source for program in PROGRAMS.values()))
    said = {name: outcome(device, built, name) for name in PROGRAMS}
    for name, what in said.items():
        print(f"{name}: {what}")
    return int(set(said.values()) != {"right"})


if __name__ == "__main__":
    sys.exit(main())
