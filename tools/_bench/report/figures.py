"""SVG files: the frame that every drawing shares, and one drawing that several commands need.

matplotlib comes with the `tools` extra and is imported when something is drawn, without pyplot and
so without any window system. The same rows give the same bytes: no date but that of the footer, ids
from a fixed salt. drawings.py says what is drawn of a report; `curves` is for any command.
"""

from __future__ import annotations

import importlib
import io
import os
import re
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from _console import output
from _console.problems import UsageError

Point = tuple[float, float, float, float]
"""x, y, and the interval of y."""
WIDTH, HEIGHT = 8.0, 5.0  # inches
FOOTER_INCHES = 0.62
FOOTER_LETTERS, FOOTER_LINES = 118, 3
STYLE = {
    "svg.hashsalt": "sparkle",
    "svg.fonttype": "none",
    "font.size": 9,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "axes.edgecolor": "#888888",
    "axes.axisbelow": True,
    "figure.facecolor": "white",
    "axes.facecolor": "white",
    "savefig.facecolor": "white",
}
COLOURS = (
    *("#1f5fa8", "#c4501b", "#2a7f3f", "#8d3f97", "#8a6d00", "#b3204d"),
    *("#0f8088", "#555555", "#5b6abf", "#7a3b12"),
)
MARKERS = "osD^vPX*<>"


def check(folder: Path) -> None:
    """Makes the folder. Raises UsageError now when it, or a file in it, cannot be made, or when
    there is no matplotlib.
    """
    matplotlib()
    try:
        folder.mkdir(exist_ok=True)
        probe = folder / f".{os.getpid()}.new"
        probe.write_text("")
        probe.unlink()
    except OSError as error:
        raise UsageError(f"--svg {folder}: {error.strerror}") from error


def matplotlib() -> Any:
    """The package. Raises UsageError when it is not installed."""
    try:
        return importlib.import_module("matplotlib")
    except ImportError as error:
        raise UsageError(
            f"--svg needs matplotlib ({error}): pip install 'sparkle_drv[tools]'"
        ) from error


def slug(*words: str) -> str:
    """A file name's part: "egl-0" of "egl:0"."""
    return re.sub(r"[^a-z0-9]+", "-", " ".join(words).lower()).strip("-")


def series(at: int) -> dict[str, Any]:
    """How the at-th of several curves looks."""
    return {"color": COLOURS[at % len(COLOURS)], "marker": MARKERS[at % len(MARKERS)]}


class Sheet:
    """A figure with a title, `rows` x `columns` of axes, and a footer. `save` writes it."""

    def __init__(
        self,
        title: str,
        rows: int = 1,
        columns: int = 1,
        size: tuple[float, float] = (WIDTH, HEIGHT),
    ) -> None:
        with matplotlib().rc_context(STYLE):
            figure = importlib.import_module("matplotlib.figure")
            width, height = size[0], size[1] + FOOTER_INCHES
            self.figure = figure.Figure(figsize=(width, height), layout="constrained")
            self.figure.get_layout_engine().set(
                rect=(0, FOOTER_INCHES / height, 1, size[1] / height)
            )
            self.figure.suptitle(title, fontsize=11)
            grid = self.figure.subplots(rows, columns, squeeze=False)
        self.axes = [axes for line in grid for axes in line]

    def legend_outside(self, axes: Any) -> None:
        """Right of the axes: inside it would lie on the points sooner or later."""
        if axes.get_legend_handles_labels()[0]:
            axes.legend(
                loc="upper left",
                bbox_to_anchor=(1.01, 1),
                borderaxespad=0,
                fontsize=7,
                frameon=False,
            )

    def save(self, folder: Path, name: str, footer: str) -> bool:
        """folder/name.svg. False when it could not be written, which stderr then says."""
        lines = textwrap.wrap(footer, FOOTER_LETTERS)
        if len(lines) > FOOTER_LINES:
            lines = [*lines[: FOOTER_LINES - 1], lines[FOOTER_LINES - 1][:-4] + " ..."]
        out, path = io.BytesIO(), folder / f"{name}.svg"
        with matplotlib().rc_context(STYLE):
            self.figure.text(0.01, 0.01, "\n".join(lines), fontsize=7, color="#555555", va="bottom")
            self.figure.savefig(out, format="svg", metadata={"Date": None})
        return output.save("bench.py", path, out.getvalue())


def curves(
    folder: Path,
    name: str,
    found: Mapping[str, Sequence[Point]],
    *,
    title: str,
    x: str,
    y: str,
    footer: str,
    words: Sequence[str] = (),
    log: tuple[bool, bool] = (True, True),
) -> bool:
    """name.svg: one curve with error bars for each entry of `found`, `x` and `y` being what stands
    at the axes. With `words` the x of points are indices into them. `log` says for each axis
    whether it is logarithmic. False as `Sheet.save`.
    """
    sheet = Sheet(title)
    (axes,) = sheet.axes
    for at, (label, points) in enumerate(found.items()):
        xs, ys = [p[0] for p in points], [p[1] for p in points]
        below = [max(p[1] - p[2], 0.0) for p in points]
        above = [max(p[3] - p[1], 0.0) for p in points]
        axes.errorbar(
            xs, ys, yerr=[below, above], label=label, capsize=2, lw=1.2, ms=4, **series(at)
        )
    if words:
        axes.set_xticks(range(len(words)), words, rotation=30 if len(words) > 6 else 0)
    elif log[0]:
        axes.set_xscale("log", base=2)
    if log[1]:
        axes.set_yscale("log")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    sheet.legend_outside(axes)
    return sheet.save(folder, name, footer)
