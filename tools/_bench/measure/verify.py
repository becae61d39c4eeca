"""Judges outputs: an array against its float64 oracle, guard bands, and inputs that must not
change. Pure numpy.

The error of a float array is the largest |got - want| / max(rms of want, |want|), as in
sparkle_drv.ops.ref. A value that is small by cancellation is judged relative to the rms, because
its last digits are lost. A large value is judged relative to its own size. Called by bound.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
_BLOCK = 1 << 17


@dataclass(frozen=True)
class Verdict:
    """The result of a check. `ok` says whether it passed. `error` has the worst error or the first
    wrong element. A row of the results file stores `error` under that name.
    """

    ok: bool
    error: Mapping[str, Any]

    @property
    def sentence(self) -> str:
        """Returns a sentence for people that describes the failed check."""
        e = self.error
        if "first_wrong_index" not in e:
            return str(e.get("what", ""))
        where = ", ".join(str(i) for i in e["first_wrong_index"])
        return (
            f"{e['what']}: {e['array']}[{where}] expected {e['expected']} got {e['got']}"
            f" ({e['wrong']} of {e['of']} wrong)"
        )


def passed(worst: float, tolerance: float) -> Verdict:
    return Verdict(True, {"max_rel_rms": worst, "tolerance": tolerance})


def broken(what: str, **details: Any) -> Verdict:
    """Returns the verdict of a failed check that has no numbers to compare."""
    return Verdict(False, {"what": what, **details})


def against(
    name: str, got: Array, want: Array, tolerance: float, what: str = "wrong result"
) -> Verdict:
    """Compares a whole output with its oracle. Shapes may differ as long as the sizes agree.

    Tolerance 0 means exact. NaN passes only where the oracle has NaN, an infinity only where the
    oracle has the same one.
    """
    if got.size != want.size:
        return broken(f"the oracle of {name} has {want.size} elements, the output {got.size}")
    shape = want.shape
    got, want = got.reshape(-1), want.reshape(-1)
    if got.dtype.kind == "f" or want.dtype.kind == "f":
        bad, worst = _compare_floats(got, want, tolerance)
    else:
        bad = got != want
        worst = 0.0
    wrong = int(np.count_nonzero(bad))
    if not wrong:
        return passed(worst, tolerance)
    first = int(np.argmax(bad))
    beyond = _overflows(bad, got, want)
    if beyond.any():
        first, what = int(np.argmax(beyond)), "the reference overflows the output's type"
    details: dict[str, Any] = {
        "what": what,
        "array": name,
        "first_wrong_index": [int(i) for i in np.unravel_index(first, shape)] if shape else [0],
        "expected": want[first].item(),
        "got": got[first].item(),
        "wrong": wrong,
        "of": int(want.size),
        "tolerance": tolerance,
    }
    if got.dtype.kind == "f" or want.dtype.kind == "f":
        details["max_rel_rms"] = worst
    return Verdict(False, details)


def _overflows(bad: npt.NDArray[np.bool_], got: Array, want: Array) -> npt.NDArray[np.bool_]:
    """Returns a mask of wrong elements that overflowed. Such an element is infinite or NaN, and the
    right value is beyond the range of its type.
    """
    if got.dtype.kind != "f" or want.dtype.kind not in "fiu":
        return np.zeros(0, np.bool_)
    at = bad & ~np.isfinite(got)
    at[at] = np.isfinite(want[at]) & (np.abs(want[at].astype(np.float64)) > np.finfo(got.dtype).max)
    return at


def _compare_floats(
    got: Array, want: Array, tolerance: float
) -> tuple[npt.NDArray[np.bool_], float]:
    """Returns (mask of wrong elements, the worst error). Works in blocks, because temporaries of
    all 16M doubles would cost seconds.
    """
    scale = _rms(want)
    bad = np.zeros(want.size, np.bool_)
    worst = 0.0
    for at in range(0, want.size, _BLOCK):
        part = slice(at, at + _BLOCK)
        bad[part], error = _compare_block(
            got[part], want[part].astype(np.float64, copy=False), tolerance, scale
        )
        worst = max(worst, error)
    return bad, worst


def _compare_block(
    got: Array, want: Array, tolerance: float, scale: float
) -> tuple[npt.NDArray[np.bool_], float]:
    with np.errstate(all="ignore"):
        # With tolerance 0 the kernel only moves or selects values. The oracle's float64 is first
        # rounded to the output's type.
        same = got == (want.astype(got.dtype) if tolerance == 0 else want)
        if same.all():
            return ~same, 0.0
        same |= np.isnan(got) & np.isnan(want)
        distance = np.abs(np.subtract(got, want, dtype=np.float64))
        magnitude = np.abs(want)
        distance /= np.where(np.isfinite(magnitude), np.maximum(scale, magnitude), scale)
    distance[same] = 0.0
    distance[np.isnan(distance)] = np.inf
    return distance > tolerance, float(distance.max())


def _rms(values: Array) -> float:
    """Returns the root mean square of the finite values; 1 if there is no finite value except 0."""
    total, count = 0.0, 0
    for at in range(0, values.size, _BLOCK):
        part = values[at : at + _BLOCK].astype(np.float64)
        part = part[np.isfinite(part)]
        total += float(np.dot(part, part))
        count += part.size
    return float(np.sqrt(total / count)) if total > 0 else 1.0


def unchanged(name: str, before: Array, after: Array) -> Verdict:
    """Checks that a read-only operand still holds the bytes that it held before."""
    if np.array_equal(before.reshape(-1).view(np.uint8), after.reshape(-1).view(np.uint8)):
        return passed(0.0, 0.0)
    bits = np.dtype(f"u{before.dtype.itemsize}")
    was, now = before.reshape(-1).view(bits), after.reshape(-1).view(bits)
    bad = was != now
    first = int(np.argmax(bad))
    return broken(
        "input was overwritten",
        array=name,
        first_wrong_index=[int(i) for i in np.unravel_index(first, before.shape)],
        expected=before.reshape(-1)[first].item(),
        got=after.reshape(-1)[first].item(),
        wrong=int(np.count_nonzero(bad)),
        of=int(before.size),
    )


def band_intact(name: str, side: str, pattern: Array, band: Array) -> Verdict:
    """Checks that the guard band before or after an operand still holds its pattern."""
    bad = pattern != band
    if not bad.any():
        return passed(0.0, 0.0)
    at = int(np.argmax(bad)) if side == "behind" else int(pattern.size - 1 - np.argmax(bad[::-1]))
    off = at + 1 if side == "behind" else pattern.size - at
    return broken(
        f"wrote outside of {name}: the guard band {side} it changed, nearest {off} bytes off",
        array=name,
        side=side,
        nearest_nbytes=off,
        wrong=int(np.count_nonzero(bad)),
        of=int(pattern.size),
    )


def worst_of(verdicts: list[Verdict]) -> Verdict:
    """Returns the first failure, or the pass with the largest error if there is no failure."""
    for verdict in verdicts:
        if not verdict.ok:
            return verdict
    if not verdicts:
        return Verdict(True, {"max_rel_rms": None, "tolerance": None})
    return max(verdicts, key=lambda v: (v.error["max_rel_rms"], v.error["tolerance"]))
