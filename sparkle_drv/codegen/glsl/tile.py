"""What a TilePlan asks of a shader: sizes checked against the device before any text is written.

ValueError names the field of the plan that cannot be had. Called by the generators.
"""

from __future__ import annotations

from dataclasses import dataclass

from sparkle_drv.types import DeviceInfo, TilePlan


@dataclass(frozen=True)
class Tile:
    """A group computes bm x bn outputs in steps of bk terms, a thread tm x tn of them; `vector`
    elements are loaded at once."""

    algo: str
    bm: int
    bn: int
    bk: int
    tm: int
    tn: int
    vector: int

    @property
    def columns(self) -> int:
        """Threads side by side along n."""
        return self.bn // self.tn

    @property
    def rows(self) -> int:
        return self.bm // self.tm

    @property
    def group_size(self) -> tuple[int, int, int]:
        return self.columns, self.rows, 1


def group_threads(plan: TilePlan, info: DeviceInfo, default: int) -> int:
    """The size of a one-dimensional group: plan.levels[0][0], else `default` or what the device
    can do."""
    size = plan.levels[0][0] if plan.levels else 0
    if not size:
        return min(default, max(1, info.max_group_size))
    if not 1 <= size <= info.max_group_size:
        raise ValueError(
            f"plan: levels[0][0] = {size} threads a group; {info.uri} takes 1 to "
            f"{info.max_group_size}"
        )
    return size


def checked(tile: Tile, info: DeviceInfo, algos: tuple[str, ...], itemsize: int) -> Tile:
    """`tile`, or ValueError with the field that is wrong."""
    if tile.algo not in algos:
        raise ValueError(
            f"plan: algo {tile.algo!r} is not there on egl; known: auto, {', '.join(algos)}"
        )
    if min(tile.bm, tile.bn, tile.bk, tile.tm, tile.tn) < 1:
        raise ValueError(f"plan: levels must be at least 1 each, got {_levels(tile)}")
    if tile.bm % tile.tm or tile.bn % tile.tn:
        raise ValueError(
            f"plan: levels[0] must be multiples of levels[1] in m and n, got {_levels(tile)}"
        )
    if tile.vector not in (1, 4):
        raise ValueError(f"plan: vector must be 1 or 4 (0: either), got {tile.vector}")
    if tile.tm * tile.tn > 512:
        raise ValueError(f"plan: levels[1] holds {tile.tm * tile.tn} sums a thread, at most 512")
    threads = tile.columns * tile.rows
    if threads > info.max_group_size:
        raise ValueError(
            f"plan: {_levels(tile)} takes groups of {threads} threads; {info.uri} takes "
            f"{info.max_group_size}"
        )
    shared = shared_nbytes(tile, itemsize)
    if shared > info.max_shared_nbytes:
        raise ValueError(
            f"plan: {_levels(tile)} takes {shared} bytes of shared memory; {info.uri} has "
            f"{info.max_shared_nbytes}"
        )
    return tile


def shared_nbytes(tile: Tile, itemsize: int) -> int:
    """Shared memory of a group: one block of each operand, for the algorithms that stage them."""
    return (tile.bm + tile.bn) * tile.bk * itemsize if tile.algo in ("shared", "im2col") else 0


def _levels(tile: Tile) -> str:
    return f"levels = (({tile.bm}, {tile.bn}, {tile.bk}), ({tile.tm}, {tile.tn}, 1))"
