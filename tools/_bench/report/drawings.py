"""The drawings of --svg: rooflines, distributions, sweeps, rivals and transfers, one file each.

Only rows that were verified and timed are drawn. The drawings of an earlier run are removed first.
Called by writers.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from _bench.rows.results import Report, Row

from . import figures, roofline, sweep_curves, ticks, versus_picture

COLUMNS, MOST_ON_A_SHEET, BINS = 3, 24, 40
NAME_LETTERS, MOST_TICKS = 44, 4
UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns"))
# A histogram leaves out times that exceed the median by more than FAR quartile distances. They
# would squeeze all other times into one bar.
FAR = 6


def draw(report: Report, folder: Path) -> bool:
    """Draws all drawings for which there are rows. If a file cannot be written, prints a line on
    stderr and returns False.
    """
    figures.clear(folder)
    made: list[bool] = []
    rows = [row for row in report.rows if row.verified and row.measured]
    for device in dict.fromkeys(row.subject.device for row in rows):
        own = [row for row in rows if row.subject.device == device]
        footer = _footer(report.env, own[0])
        roofs = report.extra.get("roofs", {}).get(device)
        if roofs:
            made += roofline.draw(folder, device, own, roofs, footer)
        named = f"{device} (emulated)" if own[0].subject.emulated else device
        made += _distributions(folder, named, own, footer)
        made += versus_picture.draw(folder, device, own, footer)
        fits = [fit for fit in report.extra.get("fits", []) if fit["device"] == device]
        if "fits" in report.extra:
            made += sweep_curves.transfers(folder, named, own, fits, footer)
        else:
            made += sweep_curves.draw(folder, named, own, footer)
    return all(made)


def _footer(env: Mapping[str, Any], row: Row) -> str:
    """Returns the footer: device, version, date and command."""
    s = row.subject
    version = f"sparkle_drv {env.get('sparkle_drv')} {env.get('commit') or ''}".strip()
    command = " ".join(["bench.py", *map(str, env.get("command", ()))])
    return f"{s.where} ({s.device}); {version}; {env.get('date', 'no date')}; {command}"


def _distributions(folder: Path, device: str, rows: Sequence[Row], footer: str) -> list[bool]:
    """Draws a small histogram for every row."""
    made = []
    for sheet_at in range(0, len(rows), MOST_ON_A_SHEET):
        part = rows[sheet_at : sheet_at + MOST_ON_A_SHEET]
        lines = -(-len(part) // COLUMNS)
        size = (3.1 * COLUMNS, 0.6 + 1.9 * lines)
        sheet = figures.Sheet(
            f"Samples, medians and their 95 % intervals: {device}", lines, COLUMNS, size
        )
        for axes, row in zip(sheet.axes, part, strict=False):
            _distribution(axes, row)
        for axes in sheet.axes[len(part) :]:
            axes.remove()
        number = sheet_at // MOST_ON_A_SHEET + 1
        uri = part[0].subject.device
        name = figures.slug("distributions", uri, str(number) if number > 1 else "")
        made.append(sheet.save(folder, name, footer))
    return made


def _distribution(axes: Any, row: Row) -> None:
    time, measured = row.time, row.measured
    if time is None or measured is None:
        raise ValueError("expected rows with times, got one without")
    scale, unit = next((s, u) for s, u in UNITS if time.median >= s or s == 1.0)
    ordered = sorted(value / scale for value in measured.samples)
    quarter = len(ordered) // 4
    spread = max(ordered[-1 - quarter] - ordered[quarter], time.median / scale / 100)
    kept = [value for value in ordered if value <= time.median / scale + FAR * spread]
    axes.hist(kept, bins=min(BINS, 5 + len(kept) // 3), color="#9fbbe0")
    axes.axvspan(time.low / scale, time.high / scale, color="#c4501b", alpha=0.25, lw=0)
    axes.axvline(time.median / scale, color="#c4501b", lw=1.2)
    name = figures.named(row, NAME_LETTERS)
    half = f" +- {time.half_width:.1%}" if time.half_width < 10 else ""
    axes.set_title(
        f"{name}\n{time.median / scale:.4g} {unit}{half}",
        fontsize=7,
    )
    beyond = (
        f", {len(ordered) - len(kept)} longer ones left out" if len(kept) < len(ordered) else ""
    )
    axes.set_xlabel(f"{unit} ({measured.primary}), n = {time.n}{beyond}", fontsize=6)
    axes.tick_params(labelsize=6)
    axes.locator_params(nbins=MOST_TICKS)
    for which in "xy":
        ticks.plain(axes, which, log=False)
