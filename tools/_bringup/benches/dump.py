"""Reads the state after a failed rung: fences, the last IBs decoded, context state, the page fault,
sysfs and debugfs.

The module only reads, and never asks for a reset. If a part of the state cannot be read, the dump
has the reason in its place.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sparkle_drv import lowlevel
from sparkle_drv.lowlevel import raw

from .hw import Gpu, state_words

SYSFS = (
    "vendor", "device", "revision", "subsystem_device", "current_link_speed", "current_link_width",
    "gpu_busy_percent", "mem_busy_percent", "pp_dpm_sclk", "pp_dpm_mclk", "pp_dpm_pcie",
    "power_dpm_force_performance_level", "mem_info_vram_total", "mem_info_vram_used",
    "mem_info_vis_vram_total", "mem_info_gtt_total", "mem_info_gtt_used", "vbios_version",
    "power/runtime_status", "power_state", "resource", "uevent", "gpu_metrics_version",
)  # fmt: skip
DEBUGFS = ("amdgpu_fence_info", "amdgpu_gem_info", "amdgpu_vm_info", "amdgpu_firmware_info")
PARAMETERS = ("lockup_timeout", "gpu_recovery", "vm_fault_stop", "ppfeaturemask", "noretry", "mes")
MOST_CHARS = 64_000


def autopsy(bench: Any, gpus: list[Gpu], error: BaseException) -> dict[str, Any]:
    """Returns the state of the card after the failure `error`: the texts under the key "dump", and
    facts by name, which the conditions of likely causes test.
    """
    facts: dict[str, Any] = {}
    parts: dict[str, str] = {}
    hung = type(error).__name__ == "Hung"
    facts["last_call"] = bench.last_call()

    def part(name: str, make: Callable[[], str]) -> None:
        try:
            parts[name] = make()
        except Exception as why:  # an error in one part must not lose the other parts
            parts[name] = f"not available: {why}"

    part("ibs", lambda: "\n".join(ibs(bench, gpu) for gpu in gpus))
    part("sysfs", lambda: sysfs(bench.card))
    part("debugfs", lambda: debugfs(bench.card))
    part("submission", lambda: getattr(error, "submission", ""))
    if bench.card.last_fault():
        parts["emulator"] = bench.card.last_fault()
    if not hung and bench.node_is_open():
        part("fences", lambda: "\n".join(fences(gpu) for gpu in gpus))
        part("contexts", lambda: states(gpus, facts))
        part("gpuvm_fault", lambda: page_fault(bench, facts))
        part("vram_lost_counter", lambda: lost(bench, facts))
    return {"dump": {k: v[:MOST_CHARS] for k, v in parts.items() if v}, **facts}


def ibs(bench: Any, gpu: Gpu) -> str:
    """Returns the IBs of the last two jobs, as tools/pm4.py prints them."""
    texts = []
    for job, words, va in gpu.jobs[-2:]:
        ip = "sdma" if job.ip == "dma" else job.ip
        texts.append(f"# {job}\n" + lowlevel.text([lowlevel.Ib(tuple(words), bench.gfx, ip, va)]))
    return "\n".join(texts)


def fences(gpu: Gpu) -> str:
    """Returns the state of the last jobs of a context: done, running, or failed."""
    lines = []
    for job, _, _ in gpu.jobs:
        try:
            lines.append(f"{job}: {'done' if gpu.done(job, 0.0) else 'not done'}")
        except raw.IoctlError as error:
            lines.append(f"{job}: {error}")
    return "\n".join(lines)


def states(gpus: list[Gpu], facts: dict[str, Any]) -> str:
    """Returns the flags of QUERY_STATE2 for each context."""
    flags = 0
    lines = []
    for gpu in gpus:
        if gpu.ctx:
            now = gpu.state()
            flags |= now
            lines.append(f"context {gpu.ctx}: {state_words(now)}")
    facts["state"] = state_words(flags)
    facts["guilty"] = bool(flags & raw.lib.AMDGPU_CTX_QUERY2_FLAGS_GUILTY)
    facts["was_reset"] = bool(flags & raw.lib.AMDGPU_CTX_QUERY2_FLAGS_RESET)
    if flags & raw.lib.AMDGPU_CTX_QUERY2_FLAGS_VRAMLOST:
        facts["vram_lost"] = True
    return "\n".join(lines)


def page_fault(bench: Any, facts: dict[str, Any]) -> str:
    one = bench.node.info("GPUVM_FAULT", "struct drm_amdgpu_info_gpuvm_fault")
    if not one.addr and not one.status:
        return ""
    facts["gpuvm_fault"] = f"{one.addr:#x}"
    way = "write" if one.status >> 18 & 1 else "read"
    return f"a {way} of {one.addr:#x}, status {one.status:#x}, hub {one.vmhub}"


def lost(bench: Any, facts: dict[str, Any]) -> str:
    facts["vram_lost_counter"] = int(bench.node.info("VRAM_LOST_COUNTER", "uint32_t"))
    return str(facts["vram_lost_counter"])


def read(path: Path) -> str:
    """Returns a file's text, or the reason why there is none."""
    try:
        return path.read_bytes()[:MOST_CHARS].decode(errors="replace").strip()
    except OSError as error:
        return f"({os.strerror(error.errno or 0)})"


def sysfs(card: Any) -> str:
    """Returns facts of sysfs about the card, and the parameters of the kernel module amdgpu."""
    folder = card.sysfs()
    if folder is None:
        return ""
    lines = [f"{name}: {read(folder / name)}" for name in SYSFS if (folder / name).exists()]
    for hwmon in sorted((folder / "hwmon").glob("hwmon*/*_input")):
        lines.append(f"{hwmon.name}: {read(hwmon)}")
    for name in PARAMETERS:
        path = card.root / "sys/module/amdgpu/parameters" / name
        if path.exists():
            lines.append(f"amdgpu.{name}: {read(path)}")
    return "\n".join(lines)


def debugfs(card: Any) -> str:
    """Returns what debugfs tells root about rings and fences, if it may be read."""
    if card.sysfs() is None:
        return ""
    number = card.path().name.removeprefix("renderD")
    folder = card.root / "sys/kernel/debug/dri" / number
    if not os.access(folder, os.R_OK | os.X_OK):
        return f"{folder} may not be read: run as root, with debugfs mounted"
    return "\n".join(f"{name}:\n{read(folder / name)}" for name in DEBUGFS)
