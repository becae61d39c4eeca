"""The product of two matrices, c = activation(a @ b + bias)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sparkle_drv import ops
from sparkle_drv.core.device import Device
from sparkle_drv.ops.arguments import check
from sparkle_drv.ops.gemm.operation import ALGOS, outline
from sparkle_drv.sched.model.task import Task, Value
from sparkle_drv.sched.model.work_class import Class, Runs, filled
from sparkle_drv.sched.shard.cuts import Cut

from . import verify
from .operation import Arguments, Host, Request, is_free
from .product import Product, row

THIN = 16.0
"""Operations per byte touched below which a product counts as bound by memory."""
_OPTIONS = {"activation", "algo"}


class GemmOperation(Product):
    """args: a, b. named: bias and options."""

    name = "gemm"
    function = staticmethod(ops.gemm)
    weights = "b"

    def arguments(self, a: Any, b: Any, out: Any = None, **named: Any) -> Arguments:
        return (a, b), named, out

    def operands(self, request: Request) -> dict[str, Any]:
        a, b = request.args
        bias = request.named.get("bias")
        return {"a": a, "b": b} if bias is None else {"a": a, "b": b, "bias": bias}

    def is_placeable(self, request: Request) -> bool:
        a, b = request.args
        try:
            fits = len(a.shape) == 2 == len(b.shape) and a.shape[1] == b.shape[0]
        except (AttributeError, IndexError):
            return False
        free = all(is_free(x) for x in (*request.operands.values(), request.out) if x is not None)
        known = request.named.keys() <= {"bias", *_OPTIONS}
        whole = fits and 0 not in (*a.shape, *b.shape)
        return whole and free and known and a.dtype in (np.float32, np.float64)

    def task_of(self, request: Request, reads: Mapping[str, Value]) -> Task:
        options = {name: x for name, x in request.named.items() if name != "bias"}
        return self.task(reads, options)

    def task(self, reads: Mapping[str, Value], options: Mapping[str, Any]) -> Task:
        """Returns the Task of a product. Raises as `ops` does."""
        _, m, n, _ = outline(reads["a"], reads["b"], reads.get("bias"))
        check.one_of("algo", options.get("algo", "auto"), ALGOS)
        check.activation(options.get("activation"))
        return Task(self.name, reads, Value(-1, (m, n), reads["a"].dtype), options)

    def work_class(self, task: Task) -> tuple[Class, float]:
        """The size is the number of floating-point operations."""
        (m, k), n = task.reads["a"].shape, task.out.shape[1]
        kind, flops = task.out.dtype, 2.0 * m * n * k
        touched = kind.itemsize * (m * k + k * n + m * n)
        thin = flops < THIN * touched and min(m, n) <= 32 < max(m, n)
        name = f"{self.name}_{check.tag_of(kind)}"
        if not thin:
            return Class(name, lambda dev, i: _square(dev, 16 * 2**i, kind)), flops
        return Class(f"{name}:thin", lambda dev, i: _thin(dev, 64 * 2**i, kind)), flops

    def cuts(self, task: Task, combine: str = "none") -> list[Cut]:
        """A cut of the summed axis K, whose partial products are added, only if `combine` asks for
        it. A product with a bias or an activation then has no cut.
        """
        (m, k), n = task.reads["a"].shape, task.out.shape[1]
        biased = "bias" in task.reads
        if combine == "sum":
            spoilt = biased or task.options.get("activation") is not None
            return [] if spoilt else [Cut("terms", k, {"a": 1, "b": 0}, None, "sum")]
        whole: dict[str, int | None] = {"bias": None} if biased else {}
        cut = {"bias": 0} if biased else {}
        return [
            Cut("rows", m, {"a": 0, "b": None, **whole}, 0),
            Cut("columns", n, {"a": None, "b": 1, **cut}, 1),
        ]

    def launch(self, device: Device, task: Task, reads: Mapping[str, Any], out: Any = None) -> Any:
        bias = row(reads.get("bias"))
        return ops.gemm(device, reads["a"], reads["b"], out, bias=bias, **task.options)

    def wrong(self, task: Task, got: Host, reads: Mapping[str, Host], chance: Any) -> str:
        given = reads["a"], reads["b"], row(reads.get("bias"))
        return verify.product(got, given, chance, task.options.get("activation"))

    def along(self, task: Task) -> list[str] | str:
        return ["a"]


def _square(dev: Device, side: int, kind: np.dtype[Any]) -> Runs:
    a, b = (filled(dev, (side, side), kind) for _ in range(2))
    return lambda: ops.gemm(dev, a, b), 2.0 * side**3


def _thin(dev: Device, side: int, kind: np.dtype[Any]) -> Runs:
    a, b = filled(dev, (4, side), kind), filled(dev, (side, side), kind)
    return lambda: ops.gemm(dev, a, b), 2.0 * 4 * side * side
