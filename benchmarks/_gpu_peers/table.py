"""The conditions of a run of gpu_peers.py, and its Markdown table."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[2]


def commit() -> str:
    """Returns the commit of this git checkout, followed by "+" if files have changed since. Returns
    "" if this is no checkout.
    """
    # gpu_run.sh sets SPARKLE_COMMIT, because it runs without a git repository
    noted = os.environ.get("SPARKLE_COMMIT", "")
    if noted:
        return noted
    try:
        git = ["git", "-C", str(_ROOT)]
        found = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True)
        changed = subprocess.run([*git, "status", "--porcelain"], capture_output=True, text=True)
    except OSError:
        return ""
    return found.stdout.strip() + "+" * bool(changed.stdout.strip())


def facts(libcuda: str = "") -> dict[str, Any]:
    """Returns the device, driver, machine, commit and date. Raises LookupError if there is no
    device to measure.

    Called in another process than the measuring ones, because the driver stays loaded in a process.
    """
    if libcuda:
        os.environ["SPARKLE_LIBCUDA"] = libcuda
    import sparkle_drv

    tried = [found for found in sparkle_drv.discover() if found.backend == "cuda"]
    info = next((found.info for found in tried if found.usable), None)
    if info is None:
        why = "; ".join(found.reason for found in tried) or "there is no cuda backend"
        raise LookupError(f"no CUDA device: {why}")
    return {
        "label": "fake" if info.emulated else "measured",
        "device": info.name,
        "driver": info.driver,
        "kernel_driver": _kernel_driver(),
        "libcuda": libcuda,
        "host": {"cpu": _cpu(), "cores": os.cpu_count(), "python": platform.python_version()},
        "commit": commit(),
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def _kernel_driver() -> str:
    try:
        return Path("/proc/driver/nvidia/version").read_text().splitlines()[0]
    except OSError:
        return ""


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _rows(peers: dict[str, Any]) -> list[str]:
    """Returns a row of cells for each figure, in the order in which the peers measured them."""
    order: dict[str, None] = {}
    for peer in peers.values():
        order.update(dict.fromkeys(peer.get("median", {})))
    return sorted(order, key=_place)


_KINDS = (
    "python", "import", "init", "first", "start", "rss", "launch", "prepared", "graph",
    "h2d", "d2h", "d2d", "alloc", "ptx",
)  # fmt: skip


def _place(figure: str) -> tuple[int, str, int]:
    words = figure.split("_")
    numbers = [int(word) for word in words if word.isdigit()]
    kind = "_".join(word for word in words if not word.isdigit())
    return _KINDS.index(words[0]), kind, numbers[0] if numbers else 0


def _words(figure: str) -> str:
    name, _, unit = figure.rpartition("_")
    parts = [
        _nbytes(int(part)) if part.isdigit() and name[:3] in ("h2d", "d2h", "d2d") else part
        for part in name.split("_")
    ]
    return f"{' '.join(parts)}, {'us' if unit == 'ns' else unit.replace('mib', 'MiB')}"


def _nbytes(n: int) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if n >= size:
            return f"{n // size} {unit}"
    return f"{n} B"


def _cell(figure: str, peer: dict[str, Any]) -> str:
    value = peer.get("median", {}).get(figure)
    if value is None:
        return "failed" if figure in peer.get("errors", {}) else ""
    value = value / 1e3 if figure.endswith("_ns") else value
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def markdown(result: dict[str, Any]) -> str:
    """Returns the table: a row per figure, a column per peer, medians of the repetitions."""
    peers = result["peers"]
    there = {name: peer for name, peer in peers.items() if "absent" not in peer}
    fake = " **These are figures of a fake driver: no GPU took part.**"
    rough = " Few rounds: a trial, not a measurement."
    lines = [
        f"# Calling {result['device']}",
        "",
        f"{result['driver']}; {result['kernel_driver'] or 'no kernel driver'}. "
        f"{result['host']['cpu']}, {result['host']['cores']} cores, "
        f"Python {result['host']['python']}. Commit {result['commit'] or 'unknown'}, "
        f"{result['date']}.{fake * (result['label'] == 'fake')}{rough * result['quick']}",
        "",
        "Medians over fresh processes, interleaved. Launches: the host's share of one call, in "
        "batches; `sync`, graphs and copies: with the wait.",
        "",
        "| |" + "".join(f" {name} {peer['version']} |" for name, peer in there.items()),
        "|---|" + "---:|" * len(there),
    ]
    for figure in _rows(there):
        cells = "".join(f" {_cell(figure, peer)} |" for peer in there.values())
        lines.append(f"| {_words(figure)} |{cells}")
    lines.append("")
    for name, peer in peers.items():
        if "absent" in peer:
            lines.append(f"* absent: {name}: {peer['absent']}")
        for figure, error in peer.get("errors", {}).items():
            lines.append(f"* failed: {name} {figure}: {error}")
    return "\n".join(lines).rstrip() + "\n"
