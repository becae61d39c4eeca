"""Dwords that silicon ran and replies that its kernels gave (silicon/), through our decoder, linter
and facts. What is expected here was read by hand from the sources that the files name.

When this fails, the tools misread command streams that ran on real cards.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from sparkle_drv._native import ffi, lib

import sparkle_drv as sp
from sparkle_drv import lowlevel
from sparkle_drv.backends.amdgpu import info
from sparkle_drv.lowlevel import pm4

SILICON = Path(__file__).parent / "silicon"
RING_IB = 0x1828 // 4  # the dword behind the ring's call, as umr's "from" has it


def listing(name):
    return lowlevel.read_ibs((SILICON / f"{name}.txt").read_bytes())


def rows():
    """{(base, dwords): [(dword, value, register)]} of the frame that umr printed."""
    found, current = {}, []
    for line in (SILICON / "rembrandt_gfx_ring.txt").read_text().splitlines():
        words = line.split()
        if words[0] == "IB":
            current = found.setdefault((int(words[1], 16), int(words[2])), [])
        elif words[0] != "#":
            current.append((int(words[0], 16), int(words[1], 16), "".join(words[2:])))
    return found


def as_umr():
    """The rows in umr's words, as far as a reader may depend on them."""
    lines = []
    for (base, ndw), frame in rows().items():
        lines.append(f"Decoding IB at 0x3@{base:#x} from 0x0@0x0 of {ndw} words (type 4)")
        left = 0
        for at, value, name in frame:
            place = f"[0x3@{base:#010x} + {4 * at:#06x}]\t[        {value:#010x}]\t"
            if left <= 0:
                left = 1 if value == 0xFFFF1000 else (value >> 16 & 0x3FFF) + 2
                end = at + left
                lines.append(f"{place}Opcode 0x0 [PKT3_X] ({left - 1} words, type: 3, hdr: 0x0)")
            else:
                lines.append(f"{place}|---> " + (f"gfx1033.mm{name}=0x0" if name else "FIELD=0"))
            following = next((a for a, _, _ in frame if a > at), end)
            left = end - following
        lines += ["", "Done decoding IB", ""]
    return "\n".join(lines)


@pytest.fixture(scope="module")
def rembrandt():
    """(the ring's frame, the IB that it calls)."""
    ring, ib = lowlevel.read_ibs(as_umr())
    return ring, ib


def one(ib, name, **wanted):
    """The only packet of that name with these fields."""
    found = [
        p
        for p in ib.packets()
        if p.cls and name == p.cls.NAME and all(p.fields[k] == v for k, v in wanted.items())
    ]
    assert len(found) == 1, (name, len(found))
    return found[0]


def test_the_ring_calls_the_ib(rembrandt):
    ring, ib = rembrandt
    call = one(ring, "INDIRECT_BUFFER")
    assert (call.fields["addr"], call.fields["control"]["ndw"]) == (0xFFFF80010005A100, 536)
    assert call.fields["control"]["vmid"] == 3
    assert (ring.va, ib.va, len(ib.dwords), ib.complete) == (None, 0xFFFF80010005A100, 536, True)
    steps = list(lowlevel.run([ring, ib]))
    assert [step.number for step in steps if step.name == "DISPATCH_DIRECT"] == [1]
    fence = one(ring, "RELEASE_MEM", addr=0x401120)
    assert fence.dwords[:2] == (0xC0064900, 0x06603514)  # the kernel's fence, as facts have it


def test_dma_data_of_silicon(rembrandt):
    prefetch = one(rembrandt[1], "DMA_DATA", src=0xFFFF800000800300)
    assert prefetch.dwords[:2] == (0xC0055000, 0x60200000)
    control, command = prefetch.fields["control"], prefetch.fields["command"]
    assert (control["src_sel"], control["dst_sel"], control["cp_sync"]) == (3, 2, 0)
    assert (command["byte_count"], command["dis_wc"]) == (640, 1)
    assert prefetch.fields["dst"] == prefetch.fields["src"]


def test_the_dispatch_of_silicon(rembrandt):
    """Registers that the dispatch finds, by the names and values that umr printed."""
    ib = rembrandt[1]
    held = {}
    for step in lowlevel.run([ib]):
        held |= {write.name: write.value for write in lowlevel.written(step)}
    told = {
        lowlevel.regs.ALIASES.get(name, name): value
        for _, value, name in rows()[(0x80010005A100, 536)]
        if name.startswith("COMPUTE_")
    }
    assert len(told) == 29
    assert {name: held[name] for name in told} == told
    assert held["COMPUTE_PGM_LO"] << 8 | held["COMPUTE_PGM_HI"] << 40 == 0x800000800300
    # 32 waves of scratch for each of its 12 CUs (a Steam Deck has 8).
    assert held["COMPUTE_TMPRING_SIZE"] == 32 * 12
    text = lowlevel.text([ib])
    for line in (
        "COMPUTE_PGM_RSRC1={VGPRS=4 FLOAT_MODE=0xc0 DX10_CLAMP=1}",
        "COMPUTE_PGM_RSRC2={USER_SGPR=0xc TGID_X_EN=1 TGID_Y_EN=1 TIDIG_COMP_CNT=1}",
        "COMPUTE_NUM_THREAD_Y={FULL=8 PARTIAL=7}",
        "WAIT_REG_MEM control={function=EQUAL mem_space=1} addr=0xffff800100400700",
        "DISPATCH_DIRECT header={shader_type=1} dim_x=0x1e dim_y=0x11 dim_z=1",
    ):
        assert line in text
    assert lowlevel.parse(text)[0].dwords == ib.dwords


def test_lint_of_silicon_has_no_error_but_graphics(rembrandt):
    """Packets of drawing are not in our tables; all else that a card ran is nothing to fail for.
    ACQUIRE_MEM with 25 bits of size_hi was an error here before."""
    found = lowlevel.lint(rembrandt)
    failing = {one.message.partition(" on ")[0] for one in found if one.fails}
    assert failing == {f"no table has opcode {op}" for op in ("0x8b", "0x2f", "0x2d")}
    acquire = one(rembrandt[1], "ACQUIRE_MEM")
    assert acquire.fields["size_hi"] == {"value": 0x1FFFFFF}
    doubtful = next(one for one in found if one.rule.id == "initiator")
    assert doubtful.doubt == "dword 4 of it is not printed"  # umr does not print the initiator
    assert not doubtful.fails


def test_a_compute_ib_of_gfx90c():
    [ib] = listing("cezanne_gfx90c_compute")
    assert all(packet.cls for packet in ib.packets())
    acquire = one(ib, "ACQUIRE_MEM_GFX9")
    assert (acquire.dwords[0], acquire.fields["coher_cntl"]) == (0xC0055802, 0xA8C40000)
    dispatch = one(ib, "DISPATCH_DIRECT")
    initiator = {name for name, value in dispatch.fields["initiator"].items() if value}
    assert initiator == {"COMPUTE_SHADER_EN", "FORCE_START_AT_000", "ORDER_MODE"}
    assert {one.rule.id for one in lowlevel.lint([ib])} == {"not-idle", "padding"}


def test_rings_that_the_kernel_filled():
    test, fence, gfx, kiq = listing("bc250_gfx1013_rings")
    write, nop = test.packets()
    assert (write.fields["values"], write.fields["addr"]) == ([0xDEADBEEF], 0x4017C0)
    assert len(write.dwords + nop.dwords) == 16
    done, trap = fence.packets()
    assert (done.cls.NAME, done.fields["value"], trap.cls.NAME) == ("FENCE", 1, "TRAP")
    assert done.fields["header"]["mtype"] == lowlevel.sdma.MTYPE_UC
    release = one(gfx, "RELEASE_MEM")
    assert release.fields["select"] == {"dst": 0, "intr": 2, "data": 1}
    # The kernel writes its fence with the event that our own fence has.
    ours = pm4.ReleaseMem.decode(release.dwords, 11)[1]["event"]
    assert {name: ours[name] for name in release.fields["event"]} == release.fields["event"]
    assert one(kiq, "WRITE_DATA").fields["control"]["dst_sel"] == 0  # a register
    [navi10] = listing("navi10_gfx1010_sdma")
    assert [packet.cls.NAME for packet in navi10.packets()] == ["WRITE"]


# --- AMDGPU_INFO of a BC-250 ----------------------------------------------------------------------


def replies():
    """{"HW_IP_INFO GFX": bytes}."""
    found = {}
    for line in (SILICON / "bc250_gfx1013_replies.txt").read_text().splitlines():
        if re.match(r"[A-Z_]+", line):
            found[line] = current = bytearray()
        elif not line.startswith("#"):
            for word in line.split():
                current += int(word, 16).to_bytes(4, "little")
    return found


QUERIES = {
    lib.AMDGPU_INFO_DEV_INFO: "DEV_INFO",
    lib.AMDGPU_INFO_MEMORY: "MEMORY",
}
TYPES = {
    lib.AMDGPU_INFO_HW_IP_INFO: ("HW_IP_INFO", {0: "GFX", 1: "COMPUTE", 2: "DMA"}),
    lib.AMDGPU_INFO_FW_VERSION: (
        "FW_VERSION",
        {lib.AMDGPU_INFO_FW_GFX_ME: "GFX_ME", lib.AMDGPU_INFO_FW_GFX_MEC: "GFX_MEC"},
    ),
}


def bc250(told):
    """`struct sp_amdgpu_facts` of a node that gives these replies."""

    @ffi.callback("int(void *, int, uint32_t, void *)")
    def ioctl(_itself, _fd, request, arg):
        if request == lib.DRM_IOCTL_VERSION:
            version = ffi.cast("struct drm_version *", arg)
            version.version_major, version.version_minor = 3, 64
            ffi.memmove(version.name, b"amdgpu", 6)
            return 0
        if request == lib.DRM_IOCTL_GET_CAP:
            ffi.cast("struct drm_get_cap *", arg).value = 1
            return 0
        asked = ffi.cast("struct drm_amdgpu_info *", arg)
        if asked.query == lib.AMDGPU_INFO_ACCEL_WORKING:
            reply = b"\1\0\0\0"
        elif asked.query in QUERIES:
            reply = told[QUERIES[asked.query]]
        else:
            name, kinds = TYPES[asked.query]
            kind = asked.query_fw.fw_type if name == "FW_VERSION" else asked.query_hw_ip.type
            reply = told[f"{name} {kinds[kind]}"]
        nbytes = min(len(reply), asked.return_size)
        ffi.memmove(ffi.cast("char *", asked.return_pointer), bytes(reply[:nbytes]), nbytes)
        return 0

    ops = ffi.new("struct sp_kmd_ops *")
    ops.ioctl = ioctl
    return info.ask(ops, 0, "amdgpu:0")


def test_every_field_is_where_the_reply_has_it():
    facts = bc250(replies())
    device, memory = facts.device, facts.memory
    assert (device.device_id, device.external_rev, device.family) == (0x13FE, 0x84, 143)
    assert (device.num_shader_engines, device.num_shader_arrays_per_engine) == (2, 2)
    assert (device.cu_active_number, device.num_cu_per_sh) == (24, 10)
    assert [device.cu_bitmap[e][a] for e in (0, 1) for a in (0, 1)] == [0x3F] * 4
    assert (device.gpu_counter_freq, device.max_engine_clock) == (100_000, 2_000_000)
    assert (device.max_memory_clock, device.min_memory_clock) == (0, 0)  # yet it runs at 450 MHz
    assert device.min_engine_clock == 1_000_000
    assert device.ids_flags == lib.AMDGPU_IDS_FLAGS_FUSION | 0x10  # and GANG_SUBMIT
    assert (device.virtual_address_offset, device.virtual_address_max) == (0x10000, 1 << 47)
    assert (device.high_va_offset, device.high_va_max) == (
        0xFFFF_8000_0000_0000,
        0xFFFF_FFFF_FFBF_0000,
    )
    assert (device.pcie_gen, device.pcie_num_lanes) == (4, 16)
    assert device.wave_front_size == 32
    assert (device.tcp_cache_size, device.mall_size, device.userq_ip_mask) == (0, 0, 0)
    assert memory.vram.total_heap_size == memory.cpu_accessible_vram.total_heap_size == 8 << 30
    assert memory.gtt.total_heap_size == 0xEFA35000
    assert (facts.gfx.available_rings, facts.compute.available_rings) == (1, 0xF)
    assert (facts.dma.available_rings, facts.dma.ip_discovery_version) == (3, 0x50001)
    assert (facts.gfx.hw_ip_version_major, facts.gfx.hw_ip_version_minor) == (10, 0)
    assert (facts.me_feature, facts.me_version, facts.mec_version) == (0x20, 0x63, 0x90)


def test_a_bc250_is_refused_by_its_ip_version():
    with pytest.raises(
        sp.DeviceNotFound, match=r"expected a chip of gfx10\.3 or gfx11, got GC IP 10\.1\.3"
    ):
        info.chip(bc250(replies()), "amdgpu:0")


def test_a_bc250_on_a_kernel_that_tells_no_ip_version():
    told = replies()
    for name in ("GFX", "COMPUTE", "DMA"):
        told[f"HW_IP_INFO {name}"][-4:] = bytes(4)
    with pytest.raises(
        sp.DeviceNotFound, match=r"expected a chip .*, got family 143, revision 0x84"
    ):
        info.chip(bc250(told), "amdgpu:0")
