"""INFO: every query, and that the caller gets as much as there is room for.

When this fails, a driver learns something else of a card than a real kernel says.
"""

from __future__ import annotations

import errno
import time

import pytest
from ioctls import address, create, refused

from sparkle_drv.testing.emulator import Machine, ffi, lib

# chip: device id, family, engines, CUs, IP versions of GFX and SDMA, GB_ADDR_CONFIG, ME PFP MEC
CHIPS = {
    "gfx1036": (0x164E, 149, 1, 2, (10, 3, 6), (5, 2, 6), 0x42, (13, 13, 18)),
    "gfx1100": (0x744C, 145, 6, 96, (11, 0, 0), (6, 0, 0), 0x545, (1486, 1525, 494)),
}
# hw_ip_version: of the kernel's ip_block, which is one for all chips of a driver file.
BLOCKS = {(10, 3, 6): (10, 0), (11, 0, 0): (11, 0), (5, 2, 6): (5, 2), (6, 0, 0): (6, 0)}


@pytest.fixture(params=CHIPS)
def chip(request):
    """(node, facts) of each chip."""
    with Machine([request.param]) as machine, machine.open() as node:
        yield node, CHIPS[request.param]


def test_what_the_chip_is(chip):
    node, (device, family, engines, units, *_) = chip
    info = node.info("DEV_INFO", "struct drm_amdgpu_info_device")
    assert (info.device_id, info.family) == (device, family)
    assert (info.num_shader_engines, info.cu_active_number) == (engines, units)
    assert sum(bin(mask).count("1") for row in info.cu_bitmap for mask in row) == units
    assert info.gpu_counter_freq == 100_000
    assert (info.virtual_address_offset, info.virtual_address_max) == (0x200000, 1 << 47)
    assert (info.high_va_offset, info.high_va_max) == (0xFFFF800000000000, 0xFFFFFFFFFFE00000)
    assert info.wave_front_size == 32
    assert bool(info.ids_flags & 1) == (family == 149)
    assert info.userq_ip_mask == 0


def test_engines(chip):
    node, (*_, gfx, sdma, _, _) = chip
    ctype = "struct drm_amdgpu_info_hw_ip"
    for ip, version in ((0, gfx), (1, gfx), (2, sdma)):
        info = node.info("HW_IP_INFO", ctype, query_hw_ip__type=ip)
        assert (info.hw_ip_version_major, info.hw_ip_version_minor) == BLOCKS[version]
        assert info.available_rings & 1
        major, minor, revision = version
        assert info.ip_discovery_version == major << 16 | minor << 8 | revision
        assert node.info("HW_IP_COUNT", "uint32_t", query_hw_ip__type=ip) == 1
    for ip in range(3, 10):
        assert node.info("HW_IP_INFO", ctype, query_hw_ip__type=ip).available_rings == 0
        assert node.info("HW_IP_COUNT", "uint32_t", query_hw_ip__type=ip) == 0
    with refused(errno.EINVAL):
        node.info("HW_IP_INFO", ctype, query_hw_ip__type=10)
    with refused(errno.EINVAL):
        node.info("HW_IP_INFO", ctype, query_hw_ip__type=0, query_hw_ip__ip_instance=1)
    with refused(errno.EINVAL):
        node.info("HW_IP_COUNT", "uint32_t", query_hw_ip__type=10)


def test_ip_versions_before_kms_48():
    with Machine(["gfx1036"], kms_minor=47) as machine, machine.open() as node:
        for ip, block in ((0, (10, 0)), (1, (10, 0)), (2, (5, 2))):
            info = node.info("HW_IP_INFO", "struct drm_amdgpu_info_hw_ip", query_hw_ip__type=ip)
            assert (info.hw_ip_version_major, info.hw_ip_version_minor) == block
            assert info.ip_discovery_version == 0


def test_firmware(chip):
    node, (*_, versions) = chip
    ctype = "struct drm_amdgpu_info_firmware"
    found = [node.info("FW_VERSION", ctype, query_fw__fw_type=kind) for kind in (4, 5, 8)]
    assert tuple(firmware.ver for firmware in found) == versions
    assert len({firmware.feature for firmware in found} - {0}) == 1
    for fields in ({"query_fw__fw_type": 0}, {"query_fw__fw_type": 0x99}):
        with refused(errno.EINVAL):
            node.info("FW_VERSION", ctype, **fields)
    with refused(errno.EINVAL):
        node.info("FW_VERSION", ctype, query_fw__fw_type=8, query_fw__index=2)


def test_registers_on_the_list(chip):
    node, facts = chip
    read = {"read_mmr_reg__dword_offset": 0x263E, "read_mmr_reg__count": 1}
    assert node.info("READ_MMR_REG", "uint32_t", **read) == facts[6]
    for change, error in (
        ({"read_mmr_reg__dword_offset": 0x2640}, errno.EFAULT),
        ({"read_mmr_reg__count": 2}, errno.EFAULT),
        ({"read_mmr_reg__count": 0}, errno.EINVAL),
        ({"read_mmr_reg__count": 129}, errno.EINVAL),
    ):
        with refused(error):
            node.info("READ_MMR_REG", "uint32_t", **(read | change))


def test_memory_queries_agree(node):
    create(node, 1 << 20, domains=4, flags=1)
    create(node, 1 << 21, domains=2)
    memory = node.info("MEMORY", "struct drm_amdgpu_memory_info")
    sizes = node.info("VRAM_GTT", "struct drm_amdgpu_info_vram_gtt")
    assert memory.vram.total_heap_size == sizes.vram_size == 24560 << 20
    assert memory.cpu_accessible_vram.total_heap_size == sizes.vram_cpu_accessible_size
    assert memory.gtt.total_heap_size == sizes.gtt_size
    assert node.info("VRAM_USAGE", "uint64_t") == memory.vram.heap_usage == 1 << 20
    assert node.info("VIS_VRAM_USAGE", "uint64_t") == 1 << 20
    assert node.info("GTT_USAGE", "uint64_t") == memory.gtt.heap_usage == 1 << 21


def test_the_counter_runs_at_its_frequency(node):
    start = time.monotonic_ns()
    before = node.info("TIMESTAMP", "uint64_t")
    time.sleep(0.02)
    ticks = node.info("TIMESTAMP", "uint64_t") - before
    assert 2_000_000 <= ticks <= (time.monotonic_ns() - start) / 10 + 1


@pytest.mark.parametrize(
    ("query", "ctype", "value"),
    [
        ("ACCEL_WORKING", "uint32_t", 1),
        ("NUM_BYTES_MOVED", "uint64_t", 0),
        ("NUM_EVICTIONS", "uint64_t", 0),
        ("NUM_VRAM_CPU_PAGE_FAULTS", "uint64_t", 0),
        ("RAS_ENABLED_FEATURES", "uint64_t", 0),
        ("VRAM_LOST_COUNTER", "uint32_t", 0),
    ],
)
def test_plain_numbers(node, query, ctype, value):
    assert node.info(query, ctype) == value


def test_other_queries(node):
    ibs = ffi.new("uint32_t[10]")
    arg = {"return_pointer": address(ibs), "return_size": 40, "query": 0x22}
    node.call("AMDGPU_INFO", "struct drm_amdgpu_info", **arg)
    assert list(ibs)[:3] == [192, 125, 49]
    chip = node.info("GDS_CONFIG", "struct drm_amdgpu_info_gds")
    assert (chip.gds_total_size, chip.gws_per_compute_partition) == (0x1000, 64)
    assert (chip.compute_partition_size, chip.oa_per_compute_partition) == (0x1000, 16)
    for kind in (0, 1):
        video = node.info("VIDEO_CAPS", "struct drm_amdgpu_info_video_caps", video_cap__type=kind)
        assert not any(codec.valid for codec in video.codec_info)
    with refused(errno.EINVAL):
        node.info("VIDEO_CAPS", "struct drm_amdgpu_info_video_caps", video_cap__type=2)


@pytest.mark.parametrize("sensor", [1, 2, 3, 4, 5])
def test_sensors(node, sensor):
    assert node.info("SENSOR", "uint32_t", sensor_info__type=sensor) < 1_000_000


def test_what_there_is_not(node):
    with refused(errno.EINVAL):
        node.info("SENSOR", "uint32_t", sensor_info__type=99)
    for query in (0x01, 0x04, 0x1B, 0x24, 0x99, 2**32 - 1):
        out = ffi.new("char[64]")
        fields = {"return_pointer": address(out), "return_size": 64, "query": query}
        with refused(errno.EINVAL):
            node.call("AMDGPU_INFO", "struct drm_amdgpu_info", **fields)


def test_the_fault_query_came_with_kms_3_55(node):
    ctype = "struct drm_amdgpu_info_gpuvm_fault"
    with refused(errno.EINVAL):
        node.info("GPUVM_FAULT", ctype)
    with Machine(["gfx1100"], kms_minor=55) as machine, machine.open() as newer:
        assert newer.info("GPUVM_FAULT", ctype).addr == 0


@pytest.mark.parametrize("room", [1, 4, 100, 448, 512])
def test_answers_are_cut_to_the_room_there_is(node, room):
    whole = ffi.sizeof("struct drm_amdgpu_info_device")
    out = ffi.new("unsigned char[512]", b"\xaa" * 512)
    fields = {"return_pointer": address(out), "return_size": room}
    query = lib.AMDGPU_INFO_DEV_INFO
    node.call("AMDGPU_INFO", "struct drm_amdgpu_info", query=query, **fields)
    untouched = bytes(out)[min(room, whole) :]
    assert untouched == b"\xaa" * len(untouched)
    assert out[0] == 0x4C


@pytest.mark.parametrize("fields", [{"return_size": 0}, {"return_pointer": 0}])
def test_no_room_at_all(node, fields):
    arg = {"return_pointer": 4096, "return_size": 4} | fields
    with refused(errno.EINVAL):
        node.call("AMDGPU_INFO", "struct drm_amdgpu_info", **arg)
