"""Collects all facts that a device gives about itself, decoded, for `info` and the bundle."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import sparkle_drv as sp
from _bringup.benches import dump
from _bringup.benches.amdgpu import RINGS, Bench
from _bringup.rungs.node import FIRMWARE
from sparkle_drv.lowlevel import raw

from . import families, runner

LIMIT_S = 20.0
NUMBERS = (
    "VRAM_USAGE", "GTT_USAGE", "VIS_VRAM_USAGE", "NUM_BYTES_MOVED", "NUM_EVICTIONS",
    "NUM_VRAM_CPU_PAGE_FAULTS", "RAS_ENABLED_FEATURES",
)  # fmt: skip
SENSORS = {
    "GFX_SCLK": "MHz", "GFX_MCLK": "MHz", "GPU_TEMP": "millidegrees C", "GPU_LOAD": "%",
    "GPU_AVG_POWER": "W",
}  # fmt: skip
HEX = ("flags", "address", "mask", "bitmap", "offset", "va_", "id", "rev", "_max")


def plain(value: Any) -> Any:
    """Returns a cffi struct as a dict, with arrays as lists."""
    if isinstance(value, int | float | str):
        return value
    kind = raw.ffi.typeof(value)
    if kind.kind == "array":
        return [plain(one) for one in value]
    return {
        name: plain(getattr(value, name)) for name, _ in kind.fields if name.strip("_") != "pad"
    }


def _struct(query: Callable[..., Any], *args: Any, **more: Any) -> Any:
    return plain(query(*args, **more))


def amdgpu(bench: Bench) -> dict[str, Any]:
    """Returns every INFO query with its answer, or with the reason why it has none."""
    out: dict[str, Any] = {}

    def ask(name: str, make: Callable[[], Any]) -> None:
        try:
            out[name] = make()
        except Exception as error:  # one failed query must not hide the others
            out[name] = f"not available: {error}"

    info = bench.node.info
    ask("node", lambda: str(bench.card.path()))
    ask("version", lambda: dict(zip(
        ("driver", "major", "minor", "patch", "text"), bench.node.version(), strict=True
    )))  # fmt: skip
    ask("caps", lambda: {n: bench.node.cap(n) for n in ("SYNCOBJ", "SYNCOBJ_TIMELINE", "PRIME")})
    ask("accel_working", lambda: info("ACCEL_WORKING", "uint32_t"))
    ask("isa", lambda: bench.isa)
    ask("device", lambda: plain(bench.device))
    for name in RINGS:
        ask(f"hw_ip.{name}", partial(_struct, bench.ip, name))
    for name, kind in FIRMWARE.items():
        query = partial(info, "FW_VERSION", "struct drm_amdgpu_info_firmware")
        ask(f"firmware.{name}", partial(_struct, query, query_fw__fw_type=kind))
    ask("memory", lambda: plain(bench.memory))
    ask("vram_gtt", lambda: plain(info("VRAM_GTT", "struct drm_amdgpu_info_vram_gtt")))
    for name in NUMBERS:
        ask(name.lower(), partial(info, name, "uint64_t"))
    ask("vram_lost_counter", lambda: info("VRAM_LOST_COUNTER", "uint32_t"))
    ask("timestamp", lambda: info("TIMESTAMP", "uint64_t"))
    ask("max_ibs", lambda: list(info("MAX_IBS", "uint32_t[10]")))
    ask("gpuvm_fault", lambda: plain(info("GPUVM_FAULT", "struct drm_amdgpu_info_gpuvm_fault")))
    for name, unit in SENSORS.items():
        kind = getattr(raw.lib, f"AMDGPU_INFO_SENSOR_{name}")
        label = f"sensor.{name.lower()} ({unit})"
        ask(label, partial(info, "SENSOR", "uint32_t", sensor_info__type=kind))
    ask("sysfs", lambda: dump.sysfs(bench.card).splitlines())
    return out


def api(uri: str) -> dict[str, Any]:
    """Returns the DeviceInfo of the `sparkle_drv.Device` at a URI, as a dict."""
    with sp.open(uri) as device:
        return dataclasses.asdict(device.info)


def gather(uri: str) -> dict[str, Any]:
    """Returns the facts about a device. Raises when the device does not open."""
    family = families.of(uri)
    if family.name == "api":
        return api(uri)
    bench = family.bench(uri)
    try:
        return dict(runner.bounded(lambda: amdgpu(bench), LIMIT_S))
    finally:
        bench.close()


def safely(uri: str) -> dict[str, Any]:
    """Returns all facts about the device at a URI, or {"error": reason} if that fails."""
    try:
        return gather(uri)
    except Exception as error:
        return {"error": str(error)}


def lines(value: Any, key: str = "", indent: int = 0) -> list[str]:
    """Returns a tree of dicts and lists as lines of text."""
    pad = "  " * indent
    if isinstance(value, dict):
        head = [f"{pad}{key}"] if key else []
        return head + [one for k, v in value.items() for one in lines(v, k, indent + bool(key))]
    if isinstance(value, list) and value and isinstance(value[0], str):
        return [f"{pad}{key}", *(f"{pad}  {one}" for one in value)]
    if isinstance(value, int) and not isinstance(value, bool) and key.endswith(HEX):
        return [f"{pad}{key:28} {value:#x}"]
    return [f"{pad}{key:28} {value}"]
