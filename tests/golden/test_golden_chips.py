"""Which compiler target each chip is, by what the kernel says of it.

When this fails, a chip runs code that was compiled for another one.

The rows are literals of the sources, in their own spelling; none comes from our table.
"""

from __future__ import annotations

import pytest
from sparkle_drv._native import ffi

from sparkle_drv.amd.tables import chips

# IP version of GC -> gfx_target_version: Linux kfd_device.c, kgd2kfd_probe.
KFD = {
    (10, 3, 0): 100300, (10, 3, 1): 100303, (10, 3, 2): 100301, (10, 3, 3): 100305,
    (10, 3, 4): 100302, (10, 3, 5): 100304, (10, 3, 6): 100306, (10, 3, 7): 100306,
    (11, 0, 0): 110000, (11, 0, 1): 110003, (11, 0, 2): 110002, (11, 0, 3): 110001,
    (11, 0, 4): 110003, (11, 5, 0): 110500, (11, 5, 1): 110501, (11, 5, 2): 110502,
    (11, 5, 3): 110503,
}  # fmt: skip
# Family and external_rev -> target. Families: include/uapi/drm/amdgpu_drm.h. Revisions: what
# nv_common_early_init (nv.c) and soc21_common_early_init (soc21.c) add, rev_id 0 and 2; the last
# of each range from Mesa's amdgpu_asic_addr.h.
FAMILIES = {
    (143, 0x28): "gfx1030", (143, 0x2A): "gfx1030", (143, 0x31): "gfx1030",
    (143, 0x32): "gfx1031", (143, 0x3B): "gfx1031", (143, 0x3C): "gfx1032",
    (143, 0x45): "gfx1032", (143, 0x46): "gfx1034", (143, 0x4F): "gfx1034",
    (144, 0x01): "gfx1033", (146, 0x01): "gfx1035", (146, 0x20): "gfx1035",
    (149, 0x01): "gfx1036", (149, 0x02): "gfx1036", (151, 0x01): "gfx1036",
    (145, 0x01): "gfx1100", (145, 0x0F): "gfx1100", (145, 0x10): "gfx1102",
    (145, 0x1F): "gfx1102", (145, 0x20): "gfx1101", (148, 0x01): "gfx1103",
    (148, 0x80): "gfx1103", (150, 0x01): "gfx1150", (150, 0x11): "gfx1150",
}  # fmt: skip
UNKNOWN = [(9, 4, 2), (10, 1, 10), (10, 3, 8), (11, 0, 5), (11, 5, 9), (12, 0, 0), (13, 0, 0)]
# Navi 10, 12 and 14; beyond the last range; Renoir; GC 12.0.
UNKNOWN_FAMILIES = [(143, 0x01), (143, 0x0A), (143, 0x14), (143, 0x27), (143, 0x50), (142, 0x91),
                    (152, 0x01), (150, 0xC1)]  # fmt: skip


def said(ip=(0, 0, 0), family=0, revision=0):
    """HW_IP_INFO of GFX and DEV_INFO, as far as they name the chip."""
    gfx = ffi.new("struct drm_amdgpu_info_hw_ip *")
    device = ffi.new("struct drm_amdgpu_info_device *")
    gfx.hw_ip_version_major = 10  # gfx_v10_0_ip_block: 10.0 on each of them
    gfx.ip_discovery_version = ip[0] << 16 | ip[1] << 8 | ip[2]
    device.family, device.external_rev = family, revision
    return gfx[0], device[0]


@pytest.mark.parametrize("ip", KFD)
def test_by_ip_version(ip):
    version = KFD[ip]
    name = f"gfx{version // 10000}{version // 100 % 100}{version % 100}"
    assert chips.target(*said(ip)) == name
    assert chips.target(*said(ip, family=143, revision=0x46)) == name  # the IP version decides


@pytest.mark.parametrize(("family", "revision"), FAMILIES)
def test_by_family_where_there_is_no_ip_version(family, revision):
    assert chips.target(*said(family=family, revision=revision)) == FAMILIES[family, revision]


@pytest.mark.parametrize("ip", UNKNOWN)
def test_an_unknown_ip_version(ip):
    given = said(ip, family=149, revision=1)  # a family that is known does not help
    assert chips.target(*given) == ""
    assert chips.words(*given) == "GC IP " + ".".join(map(str, ip))


@pytest.mark.parametrize(("family", "revision"), UNKNOWN_FAMILIES)
def test_an_unknown_family(family, revision):
    given = said(family=family, revision=revision)
    assert chips.target(*given) == ""
    assert chips.words(*given) == f"family {family}, revision {revision:#x}, no IP version"
