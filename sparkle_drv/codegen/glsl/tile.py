"""Checks a TilePlan for a shader against the device, before any text is written.

The checks raise a ValueError that names the wrong field of the plan. The generators call them.
"""

from __future__ import annotations

from dataclasses import dataclass

from sparkle_drv.types import DeviceInfo, TilePlan


@dataclass(frozen=True)
class Tile:
    """The sizes of a tile. A group computes bm x bn outputs, a thread tm x tn of them. A step of
    the group's loop adds bk terms to the sum of each output. A load takes `vector` elements."""

    algo: str
    bm: int
    bn: int
    bk: int
    tm: int
    tn: int
    vector: int

    @property
    def columns(self) -> int:
        """The number of threads of a group in the direction of the tile's bn outputs."""
        return self.bn // self.tn

    @property
    def rows(self) -> int:
        return self.bm // self.tm

    @property
    def group_size(self) -> tuple[int, int, int]:
        return self.columns, self.rows, 1


def group_threads(plan: TilePlan, info: DeviceInfo, default: int) -> int:
    """Returns the size of a one-dimensional group: plan.levels[0][0] if it is given.

    Otherwise the size is the lesser of `default` and the device's limit. Raises ValueError for a
    size that the device cannot run.
    """
    size = plan.levels[0][0] if plan.levels else 0
    if not size:
        return min(default, max(1, info.max_group_size))
    if not 1 <= size <= info.max_group_size:
        raise ValueError(
            f"plan: levels[0][0]: expected 1 to {info.max_group_size} threads a group on "
            f"{info.uri}, got {size}"
        )
    return size


def checked(tile: Tile, info: DeviceInfo, algos: tuple[str, ...], itemsize: int) -> Tile:
    """Returns `tile` if the device can run it. Raises ValueError that names the wrong field."""
    if tile.algo not in algos:
        raise ValueError(f"plan: algo: expected one of auto, {', '.join(algos)}, got {tile.algo!r}")
    if min(tile.bm, tile.bn, tile.bk, tile.tm, tile.tn) < 1:
        raise ValueError(f"plan: levels: expected sizes of 1 or more, got {_levels(tile)}")
    if tile.bm % tile.tm or tile.bn % tile.tn:
        raise ValueError(
            f"plan: levels[0]: expected multiples of levels[1] in m and n, got {_levels(tile)}"
        )
    if tile.vector not in (1, 4):
        raise ValueError(f"plan: vector: expected 1 or 4, or 0 for the default, got {tile.vector}")
    if tile.tm * tile.tn > 512:
        raise ValueError(
            f"plan: levels[1]: expected 512 outputs per thread at most, got {tile.tm * tile.tn}"
        )
    threads = tile.columns * tile.rows
    if threads > info.max_group_size:
        raise ValueError(
            f"plan: {_levels(tile)} needs groups of {threads} threads; {info.uri} has at most "
            f"{info.max_group_size}"
        )
    shared = shared_nbytes(tile, itemsize)
    if shared > info.max_shared_nbytes:
        raise ValueError(
            f"plan: {_levels(tile)} needs {shared} bytes of shared memory; {info.uri} has "
            f"{info.max_shared_nbytes}"
        )
    return tile


def shared_nbytes(tile: Tile, itemsize: int) -> int:
    """Returns the bytes of shared memory of a group: one staged block of each operand. The result
    is 0 if the algorithm stages nothing.
    """
    return (tile.bm + tile.bn) * tile.bk * itemsize if tile.algo in ("shared", "im2col") else 0


def _levels(tile: Tile) -> str:
    return f"levels = (({tile.bm}, {tile.bn}, {tile.bk}), ({tile.tm}, {tile.tn}, 1))"
