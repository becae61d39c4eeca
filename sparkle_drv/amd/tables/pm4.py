"""PM4 packets: what the command processor of gfx9 to gfx12 reads from an IB.

`ReleaseMem.encode(...)` returns dwords with the header computed. `Type3Packet.decode(dwords)`
decodes one packet, `stream` a whole IB; the text form is in amd/ib. The sources of the field
positions are PAL (*_f32_mec_pm4_packets.h), Mesa (registers/pkt3.json and common/sid.h) and Linux
(nvd.h), which agree where they overlap. regs.py has the names of the registers in SET packets.

    >>> [hex(d) for d in DispatchDirect.encode(dim_x=2, dim_y=1, dim_z=1)][:2]
    ['0xc0031500', '0x2']
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from . import packet, regs
from .bits import G9, G10UP, G11UP, U32, U64, Addr, Tail, ValuePlace, Word, bits, level
from .setreg import SetPairs, SetPairsPacked, SetRegisters, register_name
from .type3 import Type3Packet
from .values import GCR, CachePolicy, CopySel, DataSel, Event, Function, IntSel, Seq

# --- packets, by opcode ---------------------------------------------------------------------------


class Nop(Type3Packet, opcode=0x10):
    """A filler. Without a payload it is the one dword 0xffff1000."""

    payload = Tail(least=0, most=0x3FFF)


class SetBase(Type3Packet, opcode=0x11, queues=("gfx",)):
    base = Word(index=bits(0, 3))  # index 1 is the base address of DISPATCH_INDIRECT
    addr = Addr(align=8)


class ClearState(Type3Packet, opcode=0x12, queues=("gfx",)):
    cmd = Word(cmd=bits(0, 3))


class DispatchDirect(Type3Packet, opcode=0x15):
    dim_x, dim_y, dim_z = U32(), U32(), U32()
    initiator = regs.DISPATCH_INITIATOR


class DispatchIndirect(Type3Packet, opcode=0x16, queues=("compute",)):
    addr = Addr(align=4)  # address of the three workgroup counts, u32 each
    initiator = regs.DISPATCH_INITIATOR


class DispatchIndirectGfx(Type3Packet, opcode=0x16, queues=("gfx",), name="DISPATCH_INDIRECT_GFX"):
    offset = U32()  # in bytes, from the address that SET_BASE set for index 1
    initiator = regs.DISPATCH_INITIATOR


class AtomicMem(Type3Packet, opcode=0x1E):
    # `op` is a TC_OP: bits 4:0 are the operation, bit 5 means 64 bits wide, bit 6 means no return
    # value.
    control = Word(op=bits(0, 6), command=bits(8, 11), policy=bits(25, 26, CachePolicy))
    addr = Addr(align=4)
    source = U64()
    compare = U64()
    loop = Word(interval=bits(0, 12))


class CondExec(Type3Packet, opcode=0x22):
    addr = Addr(align=4)
    control = Word(command=bits(28, 31))
    execute = Word(count=bits(0, 13))


class PredExec(Type3Packet, opcode=0x23):
    execute = Word(count=bits(0, 13), device_select=bits(24, 31))


_CC = Word(
    global_config=bits(0),
    per_context_state=bits(1),
    global_uconfig=bits(15),
    gfx_sh_regs=bits(16),
    cs_sh_regs=bits(24),
    ce_ram=bits(28),
    update_enables=bits(31),
)


class ContextControl(Type3Packet, opcode=0x28, queues=("gfx",)):
    load, shadow = _CC, _CC


class WriteData(Type3Packet, opcode=0x37):
    control = Word(
        dst_sel=bits(8, 11, CopySel),
        addr_incr=bits(16),  # 1 writes every dword to the same address
        wr_confirm=bits(20),
        policy=bits(25, 26, CachePolicy),
        engine=bits(30, 31),
    )
    addr = U64()  # in bytes; or the dword address of a register if dst_sel says so
    values = Tail()


class WaitRegMem(Type3Packet, opcode=0x3C):
    control = Word(
        function=bits(0, 2, Function),
        mem_space=bits(4, 5),  # 1 is memory; fault: space
        operation=bits(6, 7),
        engine=bits(8),
    )
    addr = U64()
    reference = U32()
    mask = U32(0xFFFFFFFF)
    poll = Word(4, interval=bits(0, 15))


class IndirectBuffer(Type3Packet, opcode=0x3F):
    addr = Addr(align=4)
    control = Word(
        ndw=bits(0, 19), chain=bits(20), valid=bits(23),  # fault: valid
        vmid=bits(24, 27), policy=bits(28, 29),
    )  # fmt: skip


class CopyData(Type3Packet, opcode=0x40):
    control = Word(
        src_sel=bits(0, 3, CopySel),
        dst_sel=bits(8, 11, CopySel),
        src_policy=bits(13, 14, CachePolicy),
        count_sel=bits(16),  # 1 copies 64 bits; fault: count
        wr_confirm=bits(20),
        dst_policy=bits(25, 26, CachePolicy),
        engine=bits(30, 31),
    )
    src = U64()
    dst = U64()


class PfpSyncMe(Type3Packet, opcode=0x42, queues=("gfx",)):
    dummy = U32()


class EventWrite(Type3Packet, opcode=0x46):
    event = Word(type=bits(0, 5, Event), index=bits(8, 11))
    # The address to which an event writes; for the event PIXEL_PIPE_STAT_CONTROL: a mask.
    address = Tail(least=0, most=2, step=2)


class ReleaseMemGfx9(Type3Packet, opcode=0x49, gfx=G9):
    event = Word(
        type=bits(0, 5, Event),
        index=bits(8, 11),
        tc_wb_action=bits(15),
        tcl1_action=bits(16),
        tc_action=bits(17),
        tc_nc_action=bits(19),
        tc_md_action=bits(21),
        policy=bits(25, 26, CachePolicy),
    )
    select = Word(dst=bits(16, 17), intr=bits(24, 26, IntSel), data=bits(29, 31, DataSel))
    addr = Addr(align=4)
    value = U64()
    ctxid = U32()


class ReleaseMem(Type3Packet, opcode=0x49, gfx=G10UP):  # fault: opcode
    event = Word(
        type=bits(0, 5, Event),
        index=bits(8, 11),  # 5 is end of pipe, 6 is CS/PS done; fault: event
        glm_wb=bits(12, gfx=(10, 11)),
        glm_inv=bits(13, gfx=(10, 11)),
        glv_inv=bits(14),
        gl1_inv=bits(15),
        gl2_us=bits(16),
        gl2_range=bits(17, 18),
        gl2_discard=bits(19),
        gl2_inv=bits(20),
        gl2_wb=bits(21),
        seq=bits(22, 23, Seq),
        glk_wb=bits(24, gfx=G11UP),
        policy=bits(25, 26, CachePolicy),
        execute=bits(28),
        glk_inv=bits(30, gfx=G11UP),
        pws_enable=bits(31, gfx=G11UP),
    )
    select = Word(dst=bits(16, 17), intr=bits(24, 26, IntSel), data=bits(29, 31, DataSel))
    addr = Addr(align=4)
    value = U64()
    ctxid = U32()


class DmaData(Type3Packet, opcode=0x50):
    control = Word(
        engine=bits(0),
        src_policy=bits(13, 14, CachePolicy),
        dst_sel=bits(20, 21),  # 0 is an address, 2 nowhere (a prefetch into L2), 3 L2; fault: dst
        dst_policy=bits(25, 26, CachePolicy),
        src_sel=bits(29, 30),  # what `src` is: 0 an address, 2 data, 3 an address read by L2
        cp_sync=bits(31),
    )
    src = U64()  # address of the source, or data in the low dword
    dst = Addr(align=1)
    command = Word(
        byte_count=bits(0, 25),
        sas=bits(26),
        das=bits(27),
        saic=bits(28),
        daic=bits(29),
        raw_wait=bits(30),
        dis_wc=bits(31),
    )


class AcquireMemGfx9(Type3Packet, opcode=0x58, gfx=G9):
    coher_cntl = U32()
    size = U64(0xFF_FFFFFFFF)
    base = U64()
    poll = Word(0xA, interval=bits(0, 15))


class AcquireMem(Type3Packet, opcode=0x58, gfx=G10UP):
    pws = Word(  # pixel wait sync of gfx11, on a GFX queue only
        stage_sel=bits(11, 13, gfx=G11UP),
        counter_sel=bits(14, 15, gfx=G11UP),
        ena2=bits(17, gfx=G11UP),
        count=bits(18, 23, gfx=G11UP),
        # the prefetch parser has no such bit; radeonsi (si_fence.c) sets it on compute too
        me=bits(31),
    )
    size_lo = U32(0xFFFFFFFF)  # in units of 256 B
    # gfx10 reads eight bits of size_hi. The kernel driver writes 0xffffff, radeonsi 0x1ffffff (seen
    # on gfx10.3).
    size_hi = Word(0xFFFFFF, value=bits(0, 24))
    base_lo = U32()
    base_hi = Word(value=bits(0, 23))
    poll = Word(0xA, interval=bits(0, 15), pws_ena=bits(31, gfx=G11UP))  # fault: poll
    gcr = GCR


class LoadShRegIndex(Type3Packet, opcode=0x63):
    addr = Addr(align=4)
    reg = Word(offset=bits(0, 15), data_format=bits(31))
    count = Word(registers=bits(0, 13))


# --- packets that write registers -----------------------------------------------------------------


class SetContextReg(SetRegisters, opcode=0x69, queues=("gfx",)):
    SPACE = "CONTEXT"


class SetShReg(SetRegisters, opcode=0x76):
    SPACE = "SH"


class SetUconfigReg(SetRegisters, opcode=0x79):
    SPACE = "UCONFIG"


class SetUconfigRegIndex(SetRegisters, opcode=0x7A):
    SPACE = "UCONFIG"


# Counters by which the constant engine (CE) and the drawing engine (DE) wait for each other. gfx11
# has no constant engine.
class IncrementCeCounter(Type3Packet, opcode=0x84, gfx=(10,), queues=("gfx",)):
    control = Word(select=bits(0, 1))  # 1: the counter of the CE


class IncrementDeCounter(Type3Packet, opcode=0x85, gfx=(10,), queues=("gfx",)):
    control = Word(select=bits(0, 1))


class WaitOnCeCounter(Type3Packet, opcode=0x86, gfx=(10,), queues=("gfx",)):
    control = Word(surface_sync=bits(0))


class SetCeDeCounters(Type3Packet, opcode=0x89, gfx=(10,), queues=("gfx",)):
    counters = Word(value=bits(0, 31))


class FrameControl(Type3Packet, opcode=0x90):
    control = Word(tmz=bits(0), command=bits(28, 31))


class WaitRegMem64(Type3Packet, opcode=0x93):
    control = WaitRegMem.control
    addr = U64()
    reference = U64()
    mask = U64(0xFFFFFFFF_FFFFFFFF)
    poll = Word(4, interval=bits(0, 15))


class HdpFlush(Type3Packet, opcode=0x95):
    dummy = U32()


class InvalidateTlbs(Type3Packet, opcode=0x98):
    control = U32()


class SetShRegIndex(SetRegisters, opcode=0x9B):
    """Writes registers like SET_SH_REG. With index 3 the kernel driver's CU mask is applied."""

    SPACE = "SH"


class Pm4Timestamp(Type3Packet, opcode=0xB2, gfx=G11UP, name="TIMESTAMP"):
    body = Tail()


class SetContextRegPairs(SetPairs, opcode=0xB8, gfx=G11UP, queues=("gfx",)):
    SPACE = "CONTEXT"


class SetShRegPairs(SetPairs, opcode=0xBA, gfx=G11UP):
    SPACE = "SH"


class SetContextRegPairsPacked(SetPairsPacked, opcode=0xB9, gfx=G11UP, queues=("gfx",)):
    SPACE = "CONTEXT"


class SetShRegPairsPacked(SetPairsPacked, opcode=0xBB, gfx=G11UP):
    SPACE = "SH"


class SetShRegPairsPackedN(SetPairsPacked, opcode=0xBD, gfx=G11UP):
    """Writes at most 14 registers."""

    SPACE = "SH"


class SetQPreemptionMode(Type3Packet, opcode=0xF0):
    mode = U32()


# --- functions for registers by name, and for streams of packets ----------------------------------

SETTERS: dict[str, type[Type3Packet]] = {
    "SH": SetShReg, "UCONFIG": SetUconfigReg, "CONTEXT": SetContextReg
}  # fmt: skip


def set_registers(
    values: Mapping[str, int], *, gfx: float = 11, header: Mapping[str, int] | None = None
) -> list[int]:
    """Returns SET packets that write registers by name. Registers with consecutive addresses share
    a packet.
    """
    runs: list[tuple[str, int, list[int]]] = []
    for name, value in values.items():
        register = regs.find(name)
        if not register.user:
            raise ValueError(f"expected registers that users may write, got {name}")
        register.decode(value, gfx)  # raises if the level does not declare a bit that is set
        space, offset = register.space, register.offset(gfx)
        if runs and runs[-1][0] == space and runs[-1][1] + len(runs[-1][2]) == offset:
            runs[-1][2].append(value)
        else:
            runs.append((space, offset, [value]))
    return [
        dword
        for space, offset, run in runs
        for dword in SETTERS[space].encode(
            gfx=gfx, header=header, reg={"offset": offset}, values=run
        )
    ]


def register_places(
    dwords: Sequence[int], gfx: float = 11, queue: str = "compute"
) -> dict[str, ValuePlace]:
    """Returns the place of each written register's value in an IB, by register name. If several
    SET_*_REG packets write a register, the last one counts.
    """
    places: dict[str, ValuePlace] = {}
    for decoded in stream(dwords, gfx, queue):
        if decoded.cls is not None and issubclass(decoded.cls, SetRegisters):
            first = decoded.cls.where("values[0]").after(decoded.at)
            for i in range(len(decoded.fields["values"])):
                offset = decoded.fields["reg"]["offset"] + i
                places[register_name(decoded.cls.SPACE, offset, level(gfx))] = first.after(i)
    return places


def pad(dwords: list[int], ndw: int = 8, gfx: float = 11) -> list[int]:
    """Returns the IB, filled with one-dword NOPs to a multiple of `ndw` dwords."""
    return dwords + Nop.encode(gfx=gfx) * (-len(dwords) % ndw)


def stream(
    dwords: Sequence[int], gfx: float = 11, queue: str = "compute"
) -> Iterator[packet.Decoded]:
    """Yields every packet of an IB in turn. A packet that no table declares has cls=None and the
    reason.

    >>> [(p.at, p.cls.NAME) for p in lowlevel.decode_stream([0xC0001000, 0, 0xC0001000, 0])]
    [(0, 'NOP'), (2, 'NOP')]
    """
    return packet.walk(dwords, lambda at: Type3Packet.decode(dwords, gfx, queue, at))
