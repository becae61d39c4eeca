"""The packets that native code copies: the beginning and end of every IB of a device, and one
dispatch of each kernel. Each comes with the positions of the dwords that change between launches.

The packets are made once, at `open` and `load`, from the declarations of amd/tables. native/amdgpu
knows only positions. AMDGPU_FACTS 4.4 has the order of packets; tests/golden compares the bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkle_drv._native import ffi, lib
from sparkle_drv.amd.code import dispatch
from sparkle_drv.amd.code.codeobject import CodeObject
from sparkle_drv.amd.code.kernarg import FILLED
from sparkle_drv.amd.tables import pm4, regs

SHADER_CACHES = 0x380  # invalidates GLK, GLV and GL1, but not L2, which the whole device shares
# By level: the least feature number of the ME firmware with which CS_PARTIAL_FLUSH is reliable on a
# compute queue. Source: PAL.
RELIABLE_FLUSH = {10: 35, 11: 0}
_KINDS = {
    "hidden_block_count_x": lib.SP_AMDGPU_BLOCK_COUNT_X,
    "hidden_block_count_y": lib.SP_AMDGPU_BLOCK_COUNT_Y,
    "hidden_block_count_z": lib.SP_AMDGPU_BLOCK_COUNT_Z,
    "hidden_group_size_x": lib.SP_AMDGPU_GROUP_SIZE_X,
    "hidden_group_size_y": lib.SP_AMDGPU_GROUP_SIZE_Y,
    "hidden_group_size_z": lib.SP_AMDGPU_GROUP_SIZE_Z,
    "hidden_grid_dims": lib.SP_AMDGPU_GRID_DIMS,
    "hidden_dynamic_lds_size": lib.SP_AMDGPU_DYNAMIC_LDS,
}
# Hidden arguments without an entry in _KINDS are the remainders. They are 0, since every group is
# full.
if {*_KINDS, *(f"hidden_remainder_{a}" for a in "xyz")} != {*FILLED}:
    raise RuntimeError("hidden arguments: expected _KINDS to match kernarg.FILLED, got other names")


def idle(gfx: int, me_feature: int) -> tuple[list[int], list[int], list[int]]:
    """Returns packets that wait for all waves, and two lists of positions of dwords in them.

    On old firmware CS_PARTIAL_FLUSH returns early. So one packet writes a value to an address when
    all waves have ended, and the next packet waits until the value is there. The lists have the
    positions of the address and of the value in both packets. On newer firmware the packet is
    CS_PARTIAL_FLUSH, and both lists are empty.
    """
    if me_feature >= RELIABLE_FLUSH[gfx]:
        return dispatch.flush(gfx), [], []
    release = pm4.ReleaseMem.encode(
        gfx=gfx,
        event=dict(type=0x14, index=5, glm_wb=1, glm_inv=1, gl2_wb=1, seq=1, policy=3),
        select=dict(data=1, intr=3),
    )
    wait = pm4.WaitRegMem.encode(
        gfx=gfx, control=dict(function=3, mem_space=1), mask=0xFFFFFFFF, poll=dict(interval=4)
    )
    return release + wait, [3, len(release) + 2], [5, len(release) + 4]


def _packets(target: Any, dwords: Sequence[int], va: Sequence[int], value: Sequence[int]) -> None:
    target.ndw = len(dwords)
    target.dwords = [*dwords, *[0] * (len(target.dwords) - len(dwords))]
    target.va_at = [*va, 0, 0][:2]
    target.value_at = [*value, 0, 0][:2]


def fill_setup(setup: Any, gfx: int, engines: int, me_feature: int) -> None:
    """Writes to `setup` (struct sp_amdgpu_setup) the packets that are the same for every kernel."""
    waiting, va, value = idle(gfx, me_feature)
    acquire = pm4.AcquireMem.encode(gfx=gfx, gcr=SHADER_CACHES)
    _packets(setup.begin, dispatch.begin(gfx, engines), [], [])
    _packets(setup.between, waiting + acquire, va, value)
    _packets(setup.idle, waiting, va, value)
    (setup.pad,) = pm4.Nop.encode(gfx=gfx)


def _places(dwords: Sequence[int], gfx: int) -> dict[str, int]:
    """Returns for each register the position of the dword that is written to it."""
    places = {}
    for packet in pm4.stream(dwords, gfx):
        if packet.cls is pm4.SetShReg:
            first = packet.fields["reg"]["offset"]
            for i in range(len(packet.dwords) - 2):
                register = regs.at("SH", first + i, gfx)
                assert register is not None
                places[register.name] = packet.at + 2 + i
    return places


def of_kernel(code: CodeObject, *, gfx: int, code_va: int, name: str) -> Any:
    """Returns a `struct sp_amdgpu_template` of a kernel whose image lies at `code_va`."""
    own = dispatch.registers(
        code, gfx=gfx, code_va=code_va, kernarg_va=0, group_size=(1, 1, 1),
        scratch=dispatch.Scratch(0, 1),
    )  # fmt: skip
    dwords = pm4.set_registers(own, gfx=gfx)
    places = _places(dwords, gfx)
    dims_at = len(dwords) + 1
    dwords += pm4.DispatchDirect.encode(gfx=gfx, initiator=code.initiator)

    def user(value: str) -> int:
        first = code.user_sgprs.first
        return places[f"COMPUTE_USER_DATA_{first[value]}"] if value in first else 0

    out = ffi.new("struct sp_amdgpu_template *")
    out.name = name.encode(errors="replace")[:63]
    out.ndw, out.dwords = len(dwords), [*dwords, *[0] * (len(out.dwords) - len(dwords))]
    out.rsrc2_at, out.start_at = places["COMPUTE_PGM_RSRC2"], places["COMPUTE_START_X"]
    out.dims_at, out.kernarg_at = dims_at, user("kernarg_segment_ptr")
    if code.scratch_nbytes:
        out.tmpring_at = places["COMPUTE_TMPRING_SIZE"]
        out.scratch_base_at = places.get("COMPUTE_DISPATCH_SCRATCH_BASE_LO", 0)
        out.scratch_resource_at = user("private_segment_buffer")
        out.scratch_address_at = user("flat_scratch_init")
        out.scratch_wave_nbytes = code.scratch_wave_nbytes
    _fill_arguments(out, code)
    return out


def _fill_arguments(out: Any, code: CodeObject) -> None:
    layout = code.kernarg
    out.max_threads = code.max_group_size
    out.required_size = code.required_group_size or (0, 0, 0)
    out.lds_nbytes = code.lds_nbytes
    out.ncopies = len(layout.copies)
    for i, (source, target, nbytes) in enumerate(layout.copies):
        copy = out.copies[i]
        copy.source, copy.target, copy.nbytes = source, target, nbytes
    out.kernarg_nbytes, out.kernarg_align = layout.nbytes, max(layout.align, 1)
    if layout.dynamic_lds:
        out.dynamic_lds_at, out.dynamic_lds_align = layout.dynamic_lds[0] + 1, layout.dynamic_lds[1]
    hidden = [(_KINDS[n], *where) for n, where in layout.hidden.items() if n in _KINDS]
    out.nhidden = len(hidden)
    for i, (kind, offset, nbytes) in enumerate(hidden):
        out.hidden[i].kind, out.hidden[i].offset, out.hidden[i].nbytes = kind, offset, nbytes
