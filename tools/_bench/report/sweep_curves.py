"""Curves of a metric over a swept axis, and of transfers over their size with their fits. Called by
drawings.py. tune and other commands call figures.curves themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from _bench.jobs.axes import Value, label, short
from _bench.rows.results import Row

from . import figures, sweep_table, ticks
from .figures import Point
from .roofline import kernels

# An axis is logarithmic if its largest value is at least this many times its smallest: LOG_FROM for
# sizes, TALL_FROM for times. An axis of rates begins at zero.
LOG_FROM, TALL_FROM = 4, 20


def draw(folder: Path, device: str, rows: Sequence[Row], footer: str) -> list[bool]:
    """Draws sweep-DEVICE-MODE-AXIS-KERNEL.svg for every axis on which rows have several values."""
    groups: dict[tuple[str, tuple[str, ...]], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.subject.mode, tuple(row.subject.axes)), []).append(row)
    made = []
    for (mode, names), group in groups.items():
        for together in _columns(names, group):
            values = list(dict.fromkeys(row.subject.axes[together[0]] for row in group))
            found = dict(_series(group, together, values)) if len(values) > 1 else {}
            if found:
                name = "=".join(together)
                subject = group[0].subject
                file = figures.slug("sweep", subject.device, mode, name, subject.kernel)
                made.append(_sweep(folder, file, found, group, name, values, device, footer))
    return made


def _columns(names: Sequence[str], rows: Sequence[Row]) -> list[list[str]]:
    """Returns the names of the axes in groups. Axes with equal values in every row (m, n, k of
    squares) form one group.
    """
    found: dict[tuple[Value, ...], list[str]] = {}
    for name in names:
        found.setdefault(tuple(row.subject.axes[name] for row in rows), []).append(name)
    return list(found.values())


def _series(
    rows: Sequence[Row], together: Sequence[str], values: Sequence[Value]
) -> Iterator[tuple[str, list[Point]]]:
    """Yields a curve over the axes `together` for every kernel and every combination of the other
    axes' values. Leaves out curves of fewer than two points.
    """
    curves: dict[str, list[Point]] = {}
    _, measure = metric(rows)
    words = any(isinstance(value, str) for value in values)
    others = {*sweep_table.swept(rows)} - {*together}
    for row in rows:
        axes = row.subject.axes
        rest = {key: value for key, value in axes.items() if key in others}
        at = axes[together[0]]
        x = float(values.index(at)) if words or isinstance(at, str) else float(at)
        curves.setdefault(f"{row.subject.kernel} {label(rest)}".strip(), []).append(
            (x, *measure(row))
        )
    for text, points in curves.items():
        if len(points) > 1:
            yield text, sorted(points)


def metric(rows: Sequence[Row]) -> tuple[str, Any]:
    """Returns (label of the axis, function) for the metric that a drawing shows. The metric is the
    first of GFLOPS, GB/s and us that all rows have. The function takes a row and returns (value,
    low end, high end of its interval).
    """
    if rows[0].subject.emulated:
        return "time of the host in us", _us
    if all(row.gflops for row in rows):
        return "GFLOPS", lambda row: _rate(row, row.gflops)
    if all(row.gbytes_per_s for row in rows):
        return "GB/s", lambda row: _rate(row, row.gbytes_per_s)
    return "time in us", _us


def _us(row: Row) -> tuple[float, float, float]:
    time = row.time
    if time is None:
        raise ValueError("expected rows with times, got one without")
    return time.median / 1e3, time.low / 1e3, time.high / 1e3


def _rate(row: Row, value: float) -> tuple[float, float, float]:
    """Returns a rate and its interval. A long time is a low rate, so the ends of the
    interval swap.
    """
    time = row.time
    if time is None:
        raise ValueError("expected rows with times, got one without")
    return value, value * time.median / time.high, value * time.median / max(time.low, 1e-9)


def _sweep(
    folder: Path,
    file: str,
    found: Mapping[str, Sequence[Point]],
    rows: Sequence[Row],
    name: str,
    values: Sequence[Value],
    device: str,
    footer: str,
) -> bool:
    words = [short(value) for value in values] if isinstance(values[0], str) else []
    xs = [point[0] for points in found.values() for point in points]
    ys = [point[1] for points in found.values() for point in points]
    wide = min(xs) > 0 and max(xs) >= LOG_FROM * min(xs)
    y = metric(rows)[0]
    tall = y.startswith("time") and max(ys) >= TALL_FROM * min(ys) > 0
    return figures.curves(
        folder,
        file,
        found,
        title=f"{kernels(rows)} over {name}: {device}, {rows[0].subject.mode}",
        x=name,
        y=y,
        footer=footer,
        words=words,
        log=(wide, tall),
    )


def transfers(
    folder: Path, device: str, rows: Sequence[Row], fits: Sequence[Mapping[str, Any]], footer: str
) -> list[bool]:
    """Draws transfer-DEVICE.svg: time over size for each kind of transfer (write, read, ...), with
    one panel per kind of memory. The fits are dashed.
    """
    memories = list(dict.fromkeys(str(row.subject.axes["memory"]) for row in rows))
    size = (figures.WIDTH + 4 if len(memories) > 1 else figures.WIDTH, figures.HEIGHT)
    sheet = figures.Sheet(f"Transfers, one at a time: {device}", 1, len(memories), size)
    ways = list(dict.fromkeys(str(row.extra["way"]) for row in rows))
    for axes, memory in zip(sheet.axes, memories, strict=True):
        for at, way in enumerate(ways):
            own = [r for r in rows if (r.extra["way"], r.subject.axes["memory"]) == (way, memory)]
            points = [(int(r.subject.axes["nbytes"]), r.time.median / 1e3) for r in own if r.time]
            if points:
                style = figures.series(at)
                axes.plot(*zip(*points, strict=True), ls="", ms=4, label=way, **style)
                for fit in fits:
                    if (fit["way"], fit["memory"]) == (way, memory):
                        _fit(axes, fit, [x for x, _ in points], style["color"])
        axes.set(xlabel="bytes", ylabel="time in us", title=f"{memory} memory")
        ticks.plain(axes, "x", log=True, binary=True)
        ticks.plain(axes, "y", log=True)
    sheet.legend_outside(sheet.axes[-1])
    return [sheet.save(folder, figures.slug("transfer", rows[0].subject.device), footer)]


def _fit(axes: Any, fit: Mapping[str, Any], xs: Sequence[int], colour: str) -> None:
    steps = [min(xs) * (max(xs) / min(xs)) ** (at / 60) for at in range(61)]
    times = [(fit["alpha_ns"] + fit["beta_ns_per_byte"] * x) / 1e3 for x in steps]
    axes.plot(steps, times, color=colour, lw=0.9, ls="--")
