"""Finds the compilers' name of a render node's chip. The table is native/kmd/target.c."""

from __future__ import annotations

from typing import Any

from sparkle_drv._native import ffi, lib


def target(gfx: Any, device: Any) -> str:
    """Returns a name such as "gfx1036", from HW_IP_INFO of GFX and DEV_INFO, or "" for an unknown
    chip.
    """
    number = lib.sp_amdgpu_target(ffi.addressof(gfx), ffi.addressof(device))
    return f"gfx{number}" if number else ""


def words(gfx: Any, device: Any) -> str:
    """Returns the chip as the kernel driver describes it: its IP version, or its family and
    revision if it has no IP version.
    """
    ip = gfx.ip_discovery_version
    if ip:
        return f"GC IP {ip >> 16}.{ip >> 8 & 0xFF}.{ip & 0xFF}"
    return f"family {device.family}, revision {device.external_rev:#x}, no IP version"
