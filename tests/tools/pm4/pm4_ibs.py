"""IBs for the tests of pm4: a dispatch that lint has nothing against, and the captures."""

from __future__ import annotations

from where import ROOT

from sparkle_drv import lowlevel
from sparkle_drv.lowlevel import Ib, pm4

CAPTURES = sorted((ROOT / "tests/golden/captures").glob("*.txt"))
VA = 0x1000
FLUSH = {"type": 7, "index": 4}
REGISTERS = {
    "PGM_LO": 0x12345, "PGM_HI": 0x80, "PGM_RSRC1": 0x60AF0040, "PGM_RSRC2": 0x8C, "PGM_RSRC3": 0,
    "RESOURCE_LIMITS": 0, "NUM_THREAD_X": 64, "NUM_THREAD_Y": 1, "NUM_THREAD_Z": 1,
    **{f"STATIC_THREAD_MGMT_SE{n}": 0xFFFFFFFF for n in range(4)},
    **{f"USER_ACCUM_{n}": 0 for n in range(4)},
}  # fmt: skip
GFX11 = {
    **{f"STATIC_THREAD_MGMT_SE{n}": 0xFFFFFFFF for n in range(4, 8)},
    "DISPATCH_INTERLEAVE": 64,
}


def registers(gfx=11, **changes):
    """SET packets of a whole dispatch; a change to None leaves a register out."""
    named = {**REGISTERS, **(GFX11 if gfx >= 11 else {}), **changes}
    dwords = []
    for name, value in named.items():
        if value is not None:
            offset = lowlevel.regs.find(f"COMPUTE_{name}").offset(gfx)
            dwords += pm4.SetShReg.encode(gfx=gfx, reg={"offset": offset}, values=[value])
    return dwords


def acquire(gfx=11, gcr=0xC3F1):
    return pm4.AcquireMem.encode(gfx=gfx, gcr=gcr)


def dispatch(gfx=11, initiator=0x8005, groups=(2, 1, 1), header=None):
    x, y, z = groups
    return pm4.DispatchDirect.encode(
        gfx=gfx, dim_x=x, dim_y=y, dim_z=z, initiator=initiator, header=header
    )


def flush(gfx=11, **event):
    return pm4.EventWrite.encode(gfx=gfx, event={**FLUSH, **event})


def job(gfx=11, before=(), after=(), pad=True, ip="compute", **changes):
    """[an IB that runs one dispatch], with dwords put before and after that."""
    dwords = acquire(gfx) + registers(gfx, **changes) + [*before]
    dwords += [*dispatch(gfx), *after, *flush(gfx)]
    return [Ib(tuple(pm4.pad(dwords) if pad else dwords), gfx, ip, va=VA)]


def ib(*dwords, gfx=11, ip="compute", va=None):
    return Ib(tuple(d for part in dwords for d in part), gfx, ip, va)


def call(va, ndw, gfx=11, chain=0):
    control = {"ndw": ndw, "valid": 1, "chain": chain}
    return pm4.IndirectBuffer.encode(gfx=gfx, addr=va, control=control)
