"""amdgpu, the lowest rungs: the render node, and the kernel driver's facts about itself, the chip,
rings and memory.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from typing import Any

from _bringup.benches.amdgpu import RINGS, Bench
from _bringup.benches.hw import state_words
from _bringup.results.rung import Rung, Skip, Wrong
from sparkle_drv.lowlevel import raw
from sparkle_drv.lowlevel import raw_gpu as gpus

KMS_LEAST = 32  # KMS 3.32, the first version with timeline syncobjs
# Family numbers with the gfx versions of their chips (AMDGPU_FACTS 1.10).
FAMILIES = {
    143: ("gfx10",), 144: ("gfx103",), 145: ("gfx110",), 146: ("gfx103",), 148: ("gfx110",),
    149: ("gfx103",), 150: ("gfx115",), 151: ("gfx103",), 152: ("gfx120",), 141: ("gfx9",),
    142: ("gfx9",),
}  # fmt: skip
FIRMWARE = {
    name: getattr(raw.lib, f"AMDGPU_INFO_FW_{name}")
    for name in ("GFX_ME", "GFX_PFP", "GFX_RLC", "GFX_MEC", "SDMA", "SMC")
}


def node(b: Bench) -> str:
    path = b.card.path()
    b.facts["node"] = str(path)
    if not b.card.emulated:
        stat = os.stat(path)
        b.facts |= {"node_mode": f"{stat.st_mode & 0o777:o}", "node_gid": stat.st_gid}
        b.facts["in_group"] = stat.st_gid in os.getgroups() or os.geteuid() == 0
    fd = b.node.fd
    return f"{path} opened, descriptor {fd}"


def version(b: Bench) -> str:
    name, major, minor, patch, text = b.node.version()
    b.facts |= {"driver": name, "kms_major": major, "kms_minor": minor}
    if name != "amdgpu":
        raise Wrong(f"the driver of this render node is {name!r} ({text}), not amdgpu", driver=name)
    if major != 3 or minor < KMS_LEAST:
        raise Wrong(
            f"expected KMS version 3.{KMS_LEAST} or newer of amdgpu, got {major}.{minor}", old=True
        )
    return f"amdgpu {major}.{minor}.{patch}"


def caps(b: Bench) -> str:
    got = {name: b.node.cap(name) for name in ("SYNCOBJ", "SYNCOBJ_TIMELINE", "PRIME")}
    b.facts |= {f"cap_{name.lower()}": value for name, value in got.items()}
    missing = [name for name in ("SYNCOBJ", "SYNCOBJ_TIMELINE") if not got[name]]
    if missing:
        raise Wrong(f"the kernel driver lacks {' and '.join(missing)}", no_timeline=True)
    return ", ".join(f"{name} {value}" for name, value in got.items())


def accel(b: Bench) -> str:
    if not b.node.info("ACCEL_WORKING", "uint32_t"):
        raise Wrong("ACCEL_WORKING is 0: the kernel driver has disabled this GPU", no_accel=True)
    return "ACCEL_WORKING 1"


def device(b: Bench) -> str:
    d = b.device
    isa = b.isa
    b.facts |= {"isa": isa, "family": d.family, "device_id": d.device_id, "cus": d.cu_active_number}
    b.facts["apu"] = bool(d.ids_flags & raw.lib.AMDGPU_IDS_FLAGS_FUSION)
    said = f"{d.device_id:#06x} rev {d.pci_rev:#x}, family {d.family}, {isa}"
    known = FAMILIES.get(d.family)
    ip = b.ip("gfx").ip_discovery_version  # 0: the kernel driver reports only the family
    generation = f"gfx{ip >> 16}{ip >> 8 & 0xFF:x}"
    if ip and known is not None and not generation.startswith(known):
        raise Wrong(
            f"{said}: expected {known[0]}... for this family, got {generation}", wrong_family=True
        )
    if known is None:
        raise Wrong(
            f"{said}: expected one of the families {', '.join(map(str, FAMILIES))}",
            wrong_family=True,
        )
    bits = sum(row.bit_count() for column in d.cu_bitmap for row in column)
    if not d.cu_active_number or not d.num_shader_engines:
        raise Wrong(f"{said}: expected compute units and shader engines, got none", no_cus=True)
    if bits != d.cu_active_number:
        raise Wrong(
            f"{said}: expected as many CUs in cu_bitmap as cu_active_number says, "
            f"{d.cu_active_number}, got {bits}",
            bad_info=True,
        )
    low, high = d.virtual_address_offset, d.virtual_address_max
    if low >= high or d.virtual_address_alignment % gpus.PAGE:
        raise Wrong(
            f"{said}: expected a range of GPU addresses aligned to pages, got {low:#x} to "
            f"{high:#x}",
            bad_info=True,
        )
    if not isa.startswith("gfx"):
        raise Wrong(f"{said}: expected gfx10.3 or gfx11", unsupported=True)
    kind = "APU" if b.facts["apu"] else "card"
    return f"{said}, {d.num_shader_engines} engines, {d.cu_active_number} CUs, {kind}"


def ring(ip: str) -> Callable[[Bench], str]:
    def run(b: Bench) -> str:
        one = b.ip(ip)
        mask = int(one.available_rings)
        b.facts[f"rings_{ip}"] = mask
        align = f"IB start aligned to {one.ib_start_alignment}, size to {one.ib_size_alignment}"
        version = one.ip_discovery_version
        ip_version = f"IP {version >> 16}.{version >> 8 & 0xFF}.{version & 0xFF}"
        # before KMS 3.48 the kernel driver reports only the version of its ip_block
        if not version:
            ip_version = f"IP block {one.hw_ip_version_major}.{one.hw_ip_version_minor}"
        if not mask:
            raise Wrong(
                f"available_rings of {ip} is 0: the kernel driver has disabled the engine",
                ring_off=ip,
            )
        return f"{mask.bit_count()} entities of {ip}, {ip_version}, {align}"

    return run


def firmware(b: Bench) -> str:
    words, none = [], []
    for name, kind in FIRMWARE.items():
        try:
            one = b.node.info(
                "FW_VERSION", "struct drm_amdgpu_info_firmware", query_fw__fw_type=kind
            )
        except OSError as error:
            if name != "SMC" or error.errno != errno.EINVAL:
                raise
            continue
        words.append(f"{name} {one.ver}/{one.feature}")
        if not one.ver and name not in ("SMC", "GFX_RLC"):
            none.append(name)
    b.facts["firmware"] = ", ".join(words)
    if none:
        raise Wrong(
            f"expected a firmware version of each engine, got 0 for {', '.join(none)}; all "
            f"versions: {', '.join(words)}",
            no_firmware=True,
        )
    return ", ".join(words)


def memory(b: Bench) -> str:
    m = b.memory
    old = b.node.info("VRAM_GTT", "struct drm_amdgpu_info_vram_gtt")
    vram, visible, gtt = (one.total_heap_size for one in (m.vram, m.cpu_accessible_vram, m.gtt))
    b.facts |= {"vram": vram, "visible": visible, "gtt": gtt}
    # Visible VRAM is not compared: a Radeon 6800 reported 273055744 of 268435456 bytes usable
    # (Mesa, amdgpu_devices.c).
    for name, heap in (("vram", m.vram), ("gtt", m.gtt)):
        if heap.usable_heap_size > heap.total_heap_size:
            raise Wrong(
                f"{name}: expected at most as many usable bytes as total bytes, got more",
                bad_info=True,
            )
    if not gtt or not vram:
        raise Wrong(
            f"expected some VRAM and some GTT, got {vram >> 20} MiB and {gtt >> 20} MiB",
            no_memory=True,
        )
    if (old.vram_size, old.gtt_size) != (vram, gtt) and old.vram_size > vram:
        raise Wrong(
            "expected INFO VRAM_GTT to report no more VRAM than INFO MEMORY, got "
            f"{old.vram_size} and {vram} bytes",
            bad_info=True,
        )
    used = f"{m.vram.heap_usage >> 20} and {m.gtt.heap_usage >> 20} in use"
    return f"VRAM {vram >> 20} MiB, visible {visible >> 20}, GTT {gtt >> 20}; {used}"


def bar(b: Bench) -> str:
    m = b.memory
    vram, visible = m.vram.total_heap_size, m.cpu_accessible_vram.total_heap_size
    if visible < vram:
        raise Wrong(
            f"the CPU sees {visible >> 20} of {vram >> 20} MiB of VRAM: usable, but uploads and "
            "peers go through a window",
            small_bar=True, visible=visible, vram=vram,
        )  # fmt: skip
    return f"the CPU sees all {vram >> 20} MiB of VRAM"


def clocks(b: Bench) -> tuple[int, int]:
    """Returns (the GPU's clock in ticks, the host's clock in ns) at the same moment. It makes five
    queries and returns the clocks of the fastest.
    """
    tries = []
    for _ in range(5):
        before = time.monotonic_ns()
        ticks = int(b.node.info("TIMESTAMP", "uint64_t"))
        after = time.monotonic_ns()
        tries.append((after - before, ticks, (before + after) // 2))
    return min(tries)[1:]


def clock(b: Bench) -> str:
    khz = b.device.gpu_counter_freq
    if not khz:
        raise Wrong(
            "gpu_counter_freq is 0: timing will not work, everything else does", no_frequency=True
        )
    before, t0 = clocks(b)
    time.sleep(0.05)
    after, t1 = clocks(b)
    if after <= before:
        raise Wrong(f"TIMESTAMP stands still: {before}, then {after}", bad_clock=True)
    measured = (after - before) / ((t1 - t0) / 1e6)
    if not 0.8 < measured / khz < 1.25:
        raise Wrong(
            f"the GPU's clock runs at {measured:.0f} kHz, but the kernel driver says {khz} kHz",
            bad_clock=True,
        )
    return f"{khz} kHz by INFO, {measured:.0f} measured"


def sensors(b: Bench) -> str:
    words = []
    for name in ("GFX_SCLK", "GFX_MCLK", "GPU_TEMP", "GPU_LOAD", "GPU_AVG_POWER"):
        kind = getattr(raw.lib, f"AMDGPU_INFO_SENSOR_{name}")
        try:
            value = b.node.info("SENSOR", "uint32_t", sensor_info__type=kind)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOENT, errno.EOPNOTSUPP):
                raise
            continue
        words.append(f"{name} {value}")
        b.facts[f"sensor_{name.lower()}"] = value
        if name == "GPU_TEMP" and value > 105_000:
            raise Wrong(
                f"GPU_TEMP: expected at most 105 degrees, got {value / 1000:.0f}", too_hot=True
            )
    if not words:
        raise Skip("this kernel driver reports no sensor of this chip")
    return ", ".join(words)


def contexts(b: Bench) -> str:
    seen = set()
    for _ in range(4):
        gpu = b.gpu()
        seen.add(gpu.ctx)
        flags = gpu.state()
        if flags:
            words = state_words(flags)
            lost = bool(flags & raw.lib.AMDGPU_CTX_QUERY2_FLAGS_VRAMLOST)
            raise Wrong(
                f"expected state 0 of a new context, got {words}", reset=True, vram_lost=lost
            )
    if len(seen) != 4:
        raise Wrong(f"expected 4 different ids of 4 contexts, got {sorted(seen)}", bad_ids=True)
    refused(
        errno.EINVAL, "FREE_CTX of a missing context",
        lambda: b.node.call("AMDGPU_CTX", "union drm_amdgpu_ctx",
                            op=raw.lib.AMDGPU_CTX_OP_FREE_CTX, ctx_id=max(seen) + 1000),
    )  # fmt: skip
    return f"4 contexts, ids {sorted(seen)}, QUERY_STATE2 0; a wrong id is refused"


def refused(code: int | tuple[int, ...], what: str, call: Any) -> None:
    """Checks that `call()` fails with the errno `code`, or with one of several. Raises Wrong if the
    call succeeds. An OSError with another errno passes through.
    """
    codes = (code,) if isinstance(code, int) else code
    names = " or ".join(errno.errorcode[c] for c in codes)
    try:
        call()
    except OSError as error:
        if error.errno not in codes:
            raise
        return
    raise Wrong(f"{what}: expected errno {names}, got success", taken=True)


RUNGS = (
    Rung("node", "a render node exists and may be opened", node),
    Rung("version", "VERSION: amdgpu, new enough", version, ("node",)),
    Rung("caps", "GET_CAP: syncobjs, timelines, PRIME", caps, ("version",)),
    Rung("accel", "INFO ACCEL_WORKING", accel, ("version",)),
    Rung("device", "INFO DEV_INFO: a known chip, and numbers that agree", device,
         ("version",)),
    *(
        Rung(f"ring-{ip}", f"INFO HW_IP_INFO: the {ip} engine is on", ring(ip), ("version",))
        for ip in RINGS
    ),
    Rung("firmware", "INFO FW_VERSION: microcode is loaded", firmware, ("version",)),
    Rung("memory-info", "INFO MEMORY and VRAM_GTT: heaps", memory, ("version",)),
    Rung("bar", "all VRAM is visible to the CPU", bar, ("memory-info",)),
    Rung("clock", "INFO TIMESTAMP runs at its stated rate", clock, ("device",)),
    Rung("sensors", "INFO SENSOR: clocks, temperature, power", sensors, ("version",)),
    Rung("contexts", "CTX: made, queried, freed, and a wrong one refused", contexts, ("version",)),
)  # fmt: skip
