"""`compare --baseline DIR`, which `make perf` runs: measures the quick set and compares it with the
committed file of this device.

A device without a baseline gets a new one. A row that looks SLOW is measured again, up to twice,
because medians of one machine differ between processes by more than their intervals say. A
regression counts only if the last measurement still shows it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from _console import output
from _console.problems import FAILED, OK, REGRESSION, UsageError

from _bench.jobs.catalog import manifest
from _bench.machine import env
from _bench.measure import devices, engine, probes
from _bench.rows import compare, results
from _bench.rows.compare import Pairing

from .runner import Session, Task

if TYPE_CHECKING:
    import sparkle_drv as sp

KEPT_SAMPLES = 200
SECOND_LOOKS = 2


def slug(info: sp.DeviceInfo) -> str:
    """Returns a file name for a device, made of its name, its number of compute units and its
    instruction set. A cpu's file name also has the CPU's model.
    """
    model = env.cpu_model() or "" if info.backend == "cpu" else ""
    words = f"{info.backend} {info.name} {model} {info.compute_units} {info.isa}".lower()
    return re.sub(r"[^a-z0-9]+", "-", words).strip("-")


def thinned(document: dict[str, Any]) -> dict[str, Any]:
    """Returns a results document that may be committed: at most 200 samples per row, taken at even
    distances. The command line is left out, because it may name folders of this machine.
    """
    rows = []
    for row in document["results"]:
        step = max(1, -(-len(row["samples_ns"]) // KEPT_SAMPLES))
        thin = {"samples_ns": row["samples_ns"][::step]}
        if "probes" in row:
            thin["probes"] = {name: rates[::step] for name, rates in row["probes"].items()}
        if "roof_beside" in row:
            beside = row["roof_beside"]
            thin["roof_beside"] = {**beside, "turns": beside["turns"][::step]}
        rows.append({**row, **thin})
    env = {key: value for key, value in document["env"].items() if key != "command"}
    rest = {key: value for key, value in document.items() if key != "request"}
    return {**rest, "env": env, "results": rows}


def write(path: Path, document: dict[str, Any]) -> bool:
    """Writes a baseline with one row per line, so that a diff is readable. If that fails, prints a
    line on stderr and returns False.
    """
    kept = results.finite(thinned(document))
    rest = {key: value for key, value in kept.items() if key != "results"}
    rows = [json.dumps(row, allow_nan=False) for row in kept["results"]]
    head = json.dumps(rest, indent=1, allow_nan=False)[:-2]
    text = head + ',\n "results": [\n' + ",\n".join(rows) + "\n]}\n"
    return output.save("bench.py", path, text)


def gate(
    folder: Path,
    session: Session,
    tasks_of: Callable[[sp.Device], Sequence[Task]],
    threshold: float,
) -> int:
    """Returns the exit code of `make perf`: 3 for a confirmed regression, 1 for a failed check,
    otherwise 0.
    """
    if not folder.is_dir():
        raise UsageError(f"--baseline {folder}: no such folder")
    if session.measure(tasks_of) != OK:
        return FAILED
    measured = session.report.as_json()
    worst = OK
    for uri in session.uris:
        with devices.opened(uri) as device:
            path = folder / f"{slug(device.info)}.json"
            rows = [row for row in measured["results"] if row["device"] == device.info.uri]
            new = {**measured, "results": rows}
            if not path.exists():
                if write(path, new):
                    print(f"no baseline for {device.info.name}: {path} written")
                else:
                    worst = FAILED
                continue
            tasks = tasks_of(device)
            pairs = _confirmed(results.load(path), new, device, session, tasks, threshold)
        compare.show(pairs, threshold)
        if any(pair.is_broken for pair in pairs):
            worst = FAILED
        elif worst == OK and any(pair.is_regression for pair in pairs):
            worst = REGRESSION
    return worst


def _confirmed(
    old: dict[str, Any],
    new: dict[str, Any],
    device: sp.Device,
    session: Session,
    tasks: Sequence[Task],
    threshold: float,
) -> list[Pairing]:
    """Compares the results `new` with the baseline `old`. Measures rows with the verdict SLOW
    again, replaces them in `new` and compares again. Returns the last comparison.
    """
    pairs = compare.compare(old, new, threshold)
    for _ in range(SECOND_LOOKS):
        slow = {pair.name for pair in pairs if pair.is_regression}
        if not slow:
            break
        with probes.gauges(device, manifest(device), session.settings) as gauges:
            for job, mode in tasks:
                if engine.subject_of(job, device.info, mode).key in slow:
                    again = engine.run(job, device, mode, session.settings, gauges).as_json()
                    at = [compare.key(row) for row in new["results"]].index(compare.key(again))
                    new["results"][at] = again
        pairs = compare.compare(old, new, threshold)
    return pairs
