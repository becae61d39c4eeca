"""SVG files: the frame that every drawing shares, and one drawing that several commands need.

matplotlib comes with the `tools` extra. It is imported when something is drawn, without pyplot and
so without a window system. The same rows give the same bytes: the footer has the only date, and ids
have a fixed salt. drawings.py chooses a report's drawings; `curves` serves any command.
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

from _bench.rows.results import Row

from . import ticks
from .row_table import label_of

Point = tuple[float, float, float, float]
"""The x of a point, its y, and the interval of y."""
WIDTH, HEIGHT = 8.0, 5.0  # inches
FOOTER_INCHES = 0.62
FOOTER_LETTERS, FOOTER_LINES = 118, 3
TITLE_LETTERS_PER_INCH = 10
LEGEND_LETTERS, LEGEND_POINTS = 46, 7  # letters per line of a legend; its font size in points
# Largest number of labels on an axis whose values are words, and of letters in one such label.
MOST_WORDS, WORD_LETTERS = 36, 20
OURS = "<!-- a page of bench.py: the next run that draws into this folder removes it -->"
STYLE = {
    "svg.hashsalt": "sparkle",
    "svg.fonttype": "none",
    "font.size": 9,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "axes.edgecolor": "#888888",
    "axes.axisbelow": True,
    "axes.formatter.useoffset": False,
    "figure.facecolor": "white",
    "axes.facecolor": "white",
    "savefig.facecolor": "white",
}
# The colours of Okabe and Ito, "Color Universal Design" (2008), without the yellow, which is hard
# to see on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9")
MARKERS = "osD^vPX*<>"


def check(folder: Path) -> None:
    """Makes the folder. Raises UsageError before any work when matplotlib is missing, or when the
    folder or a file in it cannot be made.
    """
    matplotlib()
    try:
        folder.mkdir(exist_ok=True)
        probe = folder / f".{os.getpid()}.new"
        probe.write_text("")
        probe.unlink()
    except OSError as error:
        raise UsageError(f"--svg {folder}: {error.strerror}") from error


def clear(folder: Path) -> None:
    """Removes the drawings of earlier runs, which contain the comment OURS. Other files stay."""
    for path in folder.glob("*.svg"):
        try:
            if path.is_symlink() or not path.is_file():
                continue
            with path.open(encoding="utf-8", errors="replace") as file:
                ours = OURS in file.read(1000)
            if ours:
                path.unlink()
        # if an old drawing cannot be removed, writing the new one in its place reports the error
        except OSError:
            continue


def matplotlib() -> Any:
    """Returns the package matplotlib. Raises UsageError when it is not installed."""
    try:
        return importlib.import_module("matplotlib")
    except ImportError as error:
        raise UsageError(
            f"--svg needs matplotlib ({error}): pip install 'sparkle_drv[tools]'"
        ) from error


def slug(*words: str) -> str:
    """Returns the words as part of a file name: "egl-0" for "egl:0"."""
    return re.sub(r"[^a-z0-9]+", "-", " ".join(words).lower()).strip("-")


def series(at: int) -> dict[str, Any]:
    """Returns the style of curve number `at`. Its colour and its marker both differ from those of
    neighbours.
    """
    return {"color": COLOURS[at % len(COLOURS)], "marker": MARKERS[at % len(MARKERS)]}


def wrapped(text: str, letters: int, most_lines: int = 99) -> str:
    """Wraps text into lines of at most `letters` letters. If there are more than `most_lines`
    lines, the text ends in "...".
    """
    lines = textwrap.wrap(text, letters) or [""]
    if len(lines) > most_lines:
        lines = [*lines[: most_lines - 1], lines[most_lines - 1][: letters - 4] + " ..."]
    return "\n".join(lines)


def named(row: Row, letters: int) -> str:
    """Returns the row's name: its kernel on one line, its point and mode on another."""
    point = f"{label_of(row)} {row.subject.mode}"
    return f"{wrapped(row.subject.kernel, letters, 1)}\n{wrapped(point, letters, 1)}"


class Sheet:
    """A figure with a title, `rows` x `columns` of axes, and a footer. `save` writes the figure."""

    def __init__(
        self,
        title: str,
        rows: int = 1,
        columns: int = 1,
        size: tuple[float, float] = (WIDTH, HEIGHT),
    ) -> None:
        with matplotlib().rc_context(STYLE):
            figure = importlib.import_module("matplotlib.figure")
            agg = importlib.import_module("matplotlib.backends.backend_agg")
            self.figure = figure.Figure(layout="constrained")
            self.canvas = agg.FigureCanvasAgg(self.figure)  # the canvas measures the size of a text
            self._size(*size)
            letters = int(size[0] * TITLE_LETTERS_PER_INCH)
            self.figure.suptitle(wrapped(title, letters, 3), fontsize=11)
            grid = self.figure.subplots(rows, columns, squeeze=False)
        self.axes = [axes for line in grid for axes in line]

    def _size(self, width: float, height: float) -> None:
        """Sets the size in inches, without the footer."""
        whole = height + FOOTER_INCHES
        self.figure.set_size_inches(width, whole)
        self.figure.get_layout_engine().set(rect=(0, FOOTER_INCHES / whole, 1, height / whole))

    def legend_outside(self, axes: Any) -> None:
        """Puts a legend to the right of the axes, because inside them it could cover points. The
        figure grows with it.
        """
        handles, labels = axes.get_legend_handles_labels()
        if not handles:
            return
        labels = [wrapped(label, LEGEND_LETTERS, 3) for label in labels]
        lines = sum(label.count("\n") + 1 for label in labels)
        inches = 0.8 + LEGEND_POINTS * (1.25 * lines + 0.6 * len(labels)) / 72
        width, height = self.figure.get_size_inches()
        self._size(width, max(height - FOOTER_INCHES, inches))
        axes.legend(
            handles,
            labels,
            loc="upper left",
            bbox_to_anchor=(1.01, 1),
            borderaxespad=0,
            fontsize=LEGEND_POINTS,
            frameon=False,
        )

    def save(self, folder: Path, name: str, footer: str) -> bool:
        """Writes folder/name.svg. If that fails, prints a line on stderr and returns False."""
        out, path = io.BytesIO(), folder / f"{name}.svg"
        with matplotlib().rc_context(STYLE):
            text = wrapped(footer, FOOTER_LETTERS, FOOTER_LINES)
            self.figure.text(0.01, 0.01, text, fontsize=7, color="#555555", va="bottom")
            self.figure.savefig(out, format="svg", metadata={"Date": None})
        page = out.getvalue().replace(b"<svg", OURS.encode() + b"\n<svg", 1)
        return output.save("bench.py", path, page)


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
    log: tuple[bool, bool] = (True, False),
) -> bool:
    """Draws name.svg: one curve with error bars for each entry of `found`.

    `x` and `y` are the labels of the axes. With `words`, the x of a point is an index into them.
    `log` says for each axis whether it is logarithmic. A linear y begins at zero. If the file
    cannot be written, prints a line on stderr and returns False.
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
        step = -(-len(words) // MOST_WORDS)
        shown = [textwrap.shorten(word, WORD_LETTERS, placeholder="...") for word in words]
        crowded = len(words) > 6 or max(map(len, shown)) > 8
        axes.set_xticks(range(0, len(words), step), shown[::step], rotation=90 if crowded else 0)
    else:
        ticks.plain(axes, "x", binary=log[0], log=log[0])
    ticks.plain(axes, "y", log=log[1])
    if not log[1]:
        axes.set_ylim(0, 1.08 * max(p[3] for points in found.values() for p in points))
    axes.set_xlabel(wrapped(x, 90, 2))
    axes.set_ylabel(y)
    sheet.legend_outside(axes)
    return sheet.save(folder, name, footer)
