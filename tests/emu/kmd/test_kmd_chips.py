"""The emulated chips, and cards by text: what INFO says of each is what real cards said.

When this fails, tests run on cards that do not exist.
"""

from __future__ import annotations

import errno

import pytest
from ioctls import address, create, refused

import sparkle_drv as sp
from sparkle_drv.amd.tables import chips
from sparkle_drv.testing import emu
from sparkle_drv.testing.emulated_options import card_problem
from sparkle_drv.testing.emulator import Machine, ffi, lib

MIB = 1 << 20
# Replies of cards, in the words and numbers of Mesa's src/amd/drm-shim/amdgpu_devices.c.
SEEN = {
    "gfx1030:se-3": dict(
        device_id=0x73BF, chip_rev=1, external_rev=0x29, family=143, num_shader_engines=4,
        num_shader_arrays_per_engine=2, gpu_counter_freq=100000, max_memory_clock=1000000,
        enabled_rb_pipes_mask=0xFF0F, num_rb_pipes=16, num_hw_gfx_contexts=8, ids_flags=0,
        ce_ram_size=65536, vram_type=9, vram_bit_width=256, gc_double_offchip_lds_buf=1,
        wave_front_size=32, num_shader_visible_vgprs=1024, num_cu_per_sh=10, num_tcc_blocks=16,
        gs_vgt_table_depth=32, gs_prim_buffer_depth=1792, max_gs_waves_per_vgt=32,
        min_engine_clock=500000, min_memory_clock=96000, tcp_cache_size=0, gl2c_cache_size=0,
        mall_size=134217728, pcie_num_lanes=16,
    ),
    "gfx1033": dict(
        device_id=0x163F, chip_rev=0, external_rev=1, pci_rev=0xAE, family=144, ids_flags=1,
        num_shader_engines=1, num_shader_arrays_per_engine=1, max_engine_clock=0,
        max_memory_clock=0, cu_active_number=8, cu_ao_mask=0xFF, enabled_rb_pipes_mask=3,
        num_rb_pipes=2, ce_ram_size=65536, vram_type=10, vram_bit_width=256,
        num_shader_visible_vgprs=1024, num_cu_per_sh=8, num_tcc_blocks=4, mall_size=0,
    ),
    "gfx1036": dict(
        device_id=0x164E, chip_rev=1, external_rev=2, pci_rev=0xC1, family=149, ids_flags=1,
        max_engine_clock=200000, max_memory_clock=2400000, min_engine_clock=200000,
        min_memory_clock=2400000, cu_active_number=2, cu_ao_mask=3, enabled_rb_pipes_mask=1,
        num_rb_pipes=1, pcie_gen=4, ce_ram_size=65536, vram_type=10, vram_bit_width=128,
        num_cu_per_sh=2, num_tcc_blocks=2, tcp_cache_size=0, gl1c_cache_size=0, gl2c_cache_size=0,
    ),
    "gfx1100": dict(
        device_id=0x744C, chip_rev=0, external_rev=1, pci_rev=0xC8, family=145, ids_flags=0,
        num_shader_engines=6, num_shader_arrays_per_engine=2, max_engine_clock=2371000,
        max_memory_clock=1249000, cu_active_number=96, cu_ao_mask=0, enabled_rb_pipes_mask=0xFFFFFF,
        num_rb_pipes=24, pcie_gen=4, ce_ram_size=0, vram_type=9, vram_bit_width=384,
        gc_double_offchip_lds_buf=0, num_shader_visible_vgprs=1536, num_cu_per_sh=8,
        num_tcc_blocks=24, min_engine_clock=500000, min_memory_clock=96000, tcp_cache_size=32,
        num_sqc_per_wgp=1, sqc_data_cache_size=16, sqc_inst_cache_size=32, gl1c_cache_size=256,
        gl2c_cache_size=6144, mall_size=100663296,
    ),
    "gfx1150:kms-3.59": dict(
        device_id=0x150E, chip_rev=1, external_rev=0x11, pci_rev=0xD1, family=150, ids_flags=9,
        num_shader_engines=1, num_shader_arrays_per_engine=2, max_engine_clock=2900000,
        max_memory_clock=937000, cu_active_number=16, enabled_rb_pipes_mask=15, num_rb_pipes=4,
        virtual_address_offset=0x10000, virtual_address_max=0x800000000000, ce_ram_size=0,
        vram_type=12, vram_bit_width=128, num_shader_visible_vgprs=1024, num_cu_per_sh=8,
        num_tcc_blocks=4, high_va_max=0xFFFFFFFFFFBFE000, min_engine_clock=600000,
        min_memory_clock=400000, tcp_cache_size=32, gl1c_cache_size=256, gl2c_cache_size=2048,
    ),
}  # fmt: skip
# text: (IP version of GFX, feature and versions of ME, PFP and MEC, GB_ADDR_CONFIG, VRAM)
ALSO_SEEN = {
    "gfx1030": ((10, 3, 0), 42, (64, 95, 104), 0x444, 17163091968),
    "gfx1033": ((10, 3, 1), 41, (64, 95, 98), 0x142, 1 << 30),
    "gfx1036": ((10, 3, 6), 38, (13, 13, 18), 0x42, 512 * MIB),
    "gfx1100": ((11, 0, 0), 29, (1486, 1525, 494), 0x545, 25753026560),
    "gfx1150": ((11, 5, 0), 35, (29, 39, 24), 0x242, 512 * MIB),
}
# "SE n, SH per SE n, CU per SH n, active_cu_number n" of kernel logs, and the compiler's name.
LOGGED = {
    "gfx1030": (4, 2, 10, 72), "gfx1035": (1, 2, 6, 12), "gfx1102": (2, 2, 8, 32),
    "gfx1103": (1, 2, 6, 12), "gfx1033": (1, 1, 8, 8), "gfx1036": (1, 1, 2, 2),
    "gfx1100": (6, 2, 8, 96), "gfx1150": (1, 2, 8, 16),
}  # fmt: skip


def device_of(node):
    return node.info("DEV_INFO", "struct drm_amdgpu_info_device")


def units(info):
    """Of each shader array that has any, by engine and array: the columns from 2 on are engines
    4 and up."""
    rows = [list(row) for row in info.cu_bitmap]
    return {(e, a): rows[e % 4][a + e // 4 * 2] for e in range(8) for a in range(2)}


@pytest.mark.parametrize("text", SEEN)
def test_dev_info_is_what_a_card_said(text):
    with Machine([text]) as machine, machine.open() as node:
        info = device_of(node)
        assert {name: getattr(info, name) for name in SEEN[text]} == SEEN[text]


@pytest.mark.parametrize("chip", ALSO_SEEN)
def test_engines_firmware_and_memory_are_what_a_card_said(chip):
    version, feature, firmware, address_config, vram = ALSO_SEEN[chip]
    with Machine([chip]) as machine, machine.open() as node:
        for ip in (0, 1):
            one = node.info("HW_IP_INFO", "struct drm_amdgpu_info_hw_ip", query_hw_ip__type=ip)
            major, minor, revision = version
            assert one.ip_discovery_version == major << 16 | minor << 8 | revision
            assert (one.hw_ip_version_major, one.hw_ip_version_minor) == (major, 0)
            assert one.available_rings == (0xF if ip else 1)
        found = [
            node.info("FW_VERSION", "struct drm_amdgpu_info_firmware", query_fw__fw_type=kind)
            for kind in (4, 5, 8)
        ]
        assert tuple(one.ver for one in found) == firmware
        assert {one.feature for one in found} == {feature}
        read = {"read_mmr_reg__dword_offset": 0x263E, "read_mmr_reg__count": 1}
        assert node.info("READ_MMR_REG", "uint32_t", **read) == address_config
        memory = node.info("MEMORY", "struct drm_amdgpu_memory_info")
        assert memory.vram.total_heap_size == memory.cpu_accessible_vram.total_heap_size == vram


@pytest.mark.parametrize("chip", LOGGED)
@pytest.mark.parametrize("kms", [42, 48])
def test_units_and_name(chip, kms):
    with Machine([f"{chip}:kms-3.{kms}"]) as machine, machine.open() as node:
        info = device_of(node)
        said = (info.num_shader_engines, info.num_shader_arrays_per_engine, info.num_cu_per_sh)
        assert (*said, info.cu_active_number) == LOGGED[chip]
        bitmap = units(info)
        assert sum(mask.bit_count() for mask in bitmap.values()) == info.cu_active_number
        assert max(mask.bit_length() for mask in bitmap.values()) <= info.num_cu_per_sh
        gfx = node.info("HW_IP_INFO", "struct drm_amdgpu_info_hw_ip", query_hw_ip__type=0)
        assert bool(gfx.ip_discovery_version) == (kms >= 48)
        assert chips.target(gfx, info) == chip


@pytest.mark.parametrize(
    ("text", "cus", "dead"),
    [
        ("gfx1030:cu-60", 60, set()),
        ("gfx1030:se-3", 54, {1}),
        ("gfx1100:se-5:cu-70", 70, {1}),
        ("gfx1100:cu-14", 14, set()),
        ("gfx1102:se-1:cu-2", 2, {1}),
        ("gfx1033:cu-2", 2, set()),
    ],
)
def test_what_is_fused_off(text, cus, dead):
    with Machine([text]) as machine, machine.open() as node:
        info = device_of(node)
        bitmap = units(info)
        assert sum(mask.bit_count() for mask in bitmap.values()) == info.cu_active_number == cus
        for mask in bitmap.values():  # a WGP is two units
            assert mask & 0x55555555 == (mask >> 1) & 0x55555555
        engines = range(info.num_shader_engines)
        off = {e for e in engines if not any(bitmap[e, a] for a in range(2))}
        assert dead <= off
        if cus >= 2 * len(engines):
            assert off == dead


def test_a_bitmap_has_holes():
    with Machine(["gfx1030:cu-60"]) as machine, machine.open() as node:
        masks = [mask for mask in units(device_of(node)).values() if mask]
    assert any(mask & (mask + 1) for mask in masks)


def test_sizes_of_memory():
    with Machine(["gfx1030:vram-8G:bar-256M:gtt-64M", "gfx1030:bar-1024M"]) as machine:
        sizes = []
        for card in (0, 1):
            with machine.open(card) as node:
                m = node.info("MEMORY", "struct drm_amdgpu_memory_info")
                heaps = (m.vram, m.cpu_accessible_vram, m.gtt)
                sizes.append([heap.total_heap_size // MIB for heap in heaps])
                if card == 0:
                    with refused(errno.ENOMEM):
                        create(node, 9 << 30, 2)
    assert sizes == [[8192, 256, 64], [16368, 1024, 15971]]


def test_the_cards_own_options_come_before_the_machines():
    options = {"kms_minor": 61, "visible_nbytes": 64 * MIB}
    with Machine(["gfx1036:kms-3.42:bar-128M", "gfx1036"], **options) as machine:
        for card, minor, visible in ((0, 42, 128), (1, 61, 64)):
            with machine.open(card) as node:
                memory = node.info("MEMORY", "struct drm_amdgpu_memory_info")
                assert node.version()[2] == minor
                assert memory.cpu_accessible_vram.total_heap_size == visible * MIB


BAD = {
    "": "no chip is called ''; known are gfx1030, gfx1033",
    "gfx1037": "no chip is called 'gfx1037'; known are gfx1030",
    "gfx103": "no chip is called 'gfx103'",
    "gfx1103:": "no option is called ''; known are kms-3.N",
    "gfx1103::kms-3.42": "no option is called ''",
    "gfx1103:kms": "no option is called 'kms'",
    "gfx1103:rom-1M": "no option is called 'rom-1M'",
    "gfx1103:kms-3.65": "expected kms-3.42 to kms-3.64",
    "gfx1103:kms-4.42": "expected kms-3.42 to kms-3.64",
    "gfx1103:kms-3.": "expected kms-3.42 to kms-3.64",
    "gfx1103:kms-3.42.1": "expected kms-3.42 to kms-3.64",
    "gfx1103:kms-3.42:kms-3.42": "kms is given twice",
    "gfx1103:bar-0M": "bar-0M: expected a size above 0",
    "gfx1103:bar-256": "bar-256: expected a size above 0",
    "gfx1103:bar-256K": "expected a size above 0",
    "gfx1103:bar-1G": "expected at most the card's memory, 512M",
    "gfx1103:vram-0G": "expected a size above 0",
    "gfx1103:vram-9999999999G": "expected a size above 0",
    "gfx1103:vram-18446744073709551617M": "expected at most 20 characters",
    "gfx1103:vram-99999999999999999999999999M": "expected at most 20 characters",
    "gfx1103:vram--1M": "expected a size above 0",
    "gfx1103:cu-0": "expected an even number of compute units, 2 to 12",
    "gfx1103:cu-3": "expected an even number",
    "gfx1103:cu-14": "2 to 12",
    "gfx1103:cu-x": "expected a number",
    "gfx1103:se-0": "expected 1 to 1 shader engines",
    "gfx1030:se-5": "expected 1 to 4 shader engines",
    "gfx1030:se-1:cu-72": "2 to 18",
    "gfx1103:" + "x" * 4000: "no option is called 'xxxx",
    "gfx1103\u00e9": "no chip is called",
}


@pytest.mark.parametrize("text", BAD, ids=lambda text: text[:20])
def test_what_names_no_card(text):
    assert BAD[text] in card_problem(text)
    with pytest.raises(ValueError, match="chips: '"):
        Machine([text])
    with Machine() as machine, pytest.raises(ValueError, match="chips: '"):
        machine.add(text)


@pytest.mark.parametrize("text", ["gfx1037", "gfx1103:kms-3.65", "gfx1103:bar-0M", "gfx1103:cu-0"])
def test_a_uri_that_names_no_card(text):
    with pytest.raises(sp.DeviceNotFound) as caught:
        sp.open(f"emu:{text}")
    assert f"emu:{text}: " in str(caught.value)
    assert BAD[text] in str(caught.value)


def test_a_uri_with_options():
    with sp.open("emu:gfx1103:kms-3.42:bar-256M#1") as dev, sp.open("emu:gfx1030") as other:
        assert (dev.info.uri, dev.info.isa) == ("emu:gfx1103:kms-3.42:bar-256M#1", "gfx1103")
        assert dev.info.driver == "amdgpu 3.42.0"
        assert (other.info.isa, other.info.compute_units) == ("gfx1030", 72)
    with pytest.raises(sp.DeviceNotFound, match="counted from #0"):
        sp.open("emu:gfx1103:kms-3.42:bar-256M#4")


def test_a_kernel_that_is_too_old_is_told():
    with pytest.raises(sp.DeviceNotFound, match=r"expected amdgpu 3\.32 or newer, .* got 3\.31"):
        sp.open("emu:gfx1103:kms-3.31")


def test_cards_are_added_while_others_work():
    with Machine(["gfx1100"]) as machine, machine.open() as node:
        handle = create(node)
        assert machine.add("gfx1030:bar-256M") == 1
        assert machine.chips == ("gfx1100", "gfx1030:bar-256M")
        with machine.open(1) as second:
            assert device_of(second).device_id == 0x73BF
        out = ffi.new("struct drm_amdgpu_gem_create_in *")
        fields = {"handle": handle, "op": 0, "value": address(out)}
        node.call("AMDGPU_GEM_OP", "struct drm_amdgpu_gem_op", **fields)
        assert out.bo_size == 4096
        while len(machine.chips) < 32:
            machine.add("gfx1036")
        with refused(errno.ENOSPC):
            machine.add("gfx1036")
    assert lib.sp_emu_version() == 9


def test_which_machine_a_uri_means():
    """Plain names are cards of one machine, so that they are peers; options have one of their own;
    within `on` all are that machine's."""
    usual = emu.machine()
    with sp.open("emu:gfx1035#3"), sp.open("emu:gfx1036"):
        assert usual.chips.count("gfx1035") == emu.CARDS
    before = usual.chips
    with sp.open("emu:gfx1035:cu-4") as dev:
        assert dev.info.compute_units == 4
    assert usual.chips == before
    with Machine(["gfx1035:cu-4:kms-3.42"]) as own, emu.on(own):
        with sp.open("emu:gfx1035:cu-4:kms-3.42") as dev:
            assert dev.info.driver == "amdgpu 3.42.0"
        for uri in ("emu:gfx1035", "emu:gfx1035:cu-4", "emu:gfx1100"):
            with pytest.raises(sp.DeviceNotFound, match="1 of emu:gfx1035:cu-4"):
                sp.open(uri)
