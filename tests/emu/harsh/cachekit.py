"""Kernels of one thread that load or store a dword, and packets that invalidate: what the tests of
caches are made of."""

from __future__ import annotations

import time

from sparkle_drv.lowlevel import isa, pm4
from sparkle_drv.testing.emulated_dispatch import launch

CHIPS = ["gfx1036", "gfx1100"]
OLD, NEW = 0x1111, 0x2222
WAVES = ("glv_inv", "gl1_inv")  # what a vector load sees anew
SCALARS = ("glk_inv", "gl1_inv")
EVERYTHING = ("glk_inv", "glv_inv", "gl1_inv", "gl2_inv", "gl2_wb")
UC = "rwu"
FLUSH = [0xC0004600, 0x407]  # EVENT_WRITE of CS_PARTIAL_FLUSH

LOAD = """
v_mov_b32 v1, 0
global_load_dword v2, v1, s[0:1]
s_waitcnt vmcnt(0)
global_store_dword v1, v2, s[2:3]
s_endpgm
"""
SAYS = """
v_mov_b32 v1, 0
v_mov_b32 v2, {value}
global_store_dword v1, v2, s[0:1]
s_endpgm
"""
SCALAR_LOAD = """
s_load_dword s4, s[0:1], 0
s_waitcnt lgkmcnt(0)
v_mov_b32 v1, 0
v_mov_b32 v2, s4
global_store_dword v1, v2, s[2:3]
s_endpgm
"""


def code(rig, text):
    """A buffer with the program."""
    buffer = rig.buffer(4096, rights="rx")
    buffer.write(isa.assemble(text, rig.gfx))
    return buffer


def run(rig, program, *pointers, groups=1, wgp_mode=0, size=1, wait=True):
    """Dwords of a dispatch of `groups` groups; `pointers` in s[0:1], s[2:3] ..., the group's number
    in the SGPR behind them. Behind it, unless `wait` is not set, its waves are waited for."""
    user = [word for at in pointers for word in (at & 0xFFFFFFFF, at >> 32)]
    dwords = launch(
        rig.gfx,
        code=program.va,
        rsrc1=1 | 0xF0 << 12 | 1 << 21 | 1 << 23 | wgp_mode << 29,
        rsrc2=len(user) << 1 | 1 << 7,
        user=user,
        groups=(groups, 1, 1),
        size=(size, 1, 1),
    )
    return dwords + FLUSH if wait else dwords


def acquire(rig, *actions):
    """ACQUIRE_MEM with these bits of GCR_CNTL; nothing without any."""
    if not actions:
        return []
    return pm4.AcquireMem.encode(gfx=rig.gfx, gcr=dict.fromkeys(actions, 1))


def release(rig, at, value, *actions, dst=0, policy=0):
    """RELEASE_MEM of a dword at the end of what came before."""
    event = {"type": 0x14, "index": 5, "policy": policy, **dict.fromkeys(actions, 1)}
    select = {"dst": dst, "data": 1}
    return pm4.ReleaseMem.encode(gfx=rig.gfx, event=event, select=select, addr=at, value=value)


def until(holds, seconds=5.0):
    """Whether it holds at last."""
    end = time.monotonic() + seconds
    while not holds() and time.monotonic() < end:
        time.sleep(0.001)
    return holds()
