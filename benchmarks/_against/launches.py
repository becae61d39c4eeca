"""Rows: what a launch costs its caller. The kernel does almost nothing."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from _cpu_peers.base import Way

from .makers import Makers, by_wall

EACH = 64
"""Number of elements that the kernel writes: so few that writing takes no time."""


def _way(name: str, dev: Any) -> Way:
    import sparkle_drv

    kernel, queue = dev.kernel("fill_f32"), dev.default_queue
    made = dev.buffer(4 * EACH)
    names: dict[str, Any] = {"q": queue, "k": kernel, "y": made, "n": EACH}

    def result() -> None:
        if (made.read("f4", EACH) != 1).any():
            raise ValueError(f"{name}: the kernel did not write the expected values")

    def poison() -> None:
        made.write(made.read("f4", EACH) * 0)

    if name == "launch one":
        statement = "q.launch(k, y, 1.0, n, groups=(1,)).wait()"
    elif name == "launch prepared":
        names["go"] = queue.prepare(kernel, made, 1.0, EACH, groups=(1,))
        statement = "q.fence(go()).wait()"
    else:
        names["c"] = sparkle_drv.Commands()
        for _ in range(int(name.rpartition(" ")[2])):
            names["c"].dispatch(kernel, made, 1.0, EACH, groups=(1,))
        statement = "q.submit(c).wait()"
    return Way(statement, names, result, poison=poison)


ROWS: Mapping[str, Makers] = {
    name: by_wall(partial(_way, name))
    for name in ("launch one", "launch prepared", "launch list of 1", "launch list of 8")
}
