"""The explain command: prints the device of a call on this machine, and why no other device was
chosen.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
from collections.abc import Callable
from typing import Any

from _console.problems import OK, NoSuchDevice

from .common import Subcommands, devices, of, shape

DTYPES = {"f32": "float32", "f64": "float64", "i32": "int32"}
RUNS, MOST_RUNS = 3, 32
"""Least and largest number of calls. After RUNS calls the next plan with a measured time is the
last. The first calls' times may lead to another device."""


def add(sub: Subcommands, epilog: str) -> None:
    """Adds the subcommand `explain`, with a subcommand for each operation, to sparkle.py."""
    made = sub.add_parser(
        "explain",
        help="where a call would go, its predicted times, and why others lose",
        description="Measures unknown rates of the devices, makes the call, and prints the "
        "decision and the time that it took.",
        epilog=epilog,
    )
    ops = made.add_subparsers(title="operations", metavar="OPERATION", required=True)
    gemm = _operation(ops, "gemm", "a product of matrices", _gemm, ("f32", "f64"), epilog)
    gemm.add_argument("sizes", type=of(3, "MxNxK"), metavar="MxNxK")
    conv = _operation(ops, "conv2d", "a convolution, NCHW", _conv2d, ("f32",), epilog)
    conv.add_argument("x", type=of(4, "NxCxHxW"), metavar="NxCxHxW")
    conv.add_argument("w", type=of(4, "OCxCxKHxKW"), metavar="OCxCxKHxKW")
    for option, usual in (("stride", 1), ("padding", 0), ("dilation", 1), ("groups", 1)):
        conv.add_argument(f"--{option}", type=int, default=usual, help=f"{usual} by default")
    mapped = _operation(ops, "map", "an expression", _map, ("f32", "f64", "i32"), epilog)
    mapped.add_argument("expression", metavar="EXPRESSION", help='such as "relu(x + y)"')
    mapped.add_argument("names", metavar="NAMES", help="of its arrays: x,y")
    mapped.add_argument("sizes", type=shape, metavar="SIZES", help="of each array: 1000x1000")
    reduced = _operation(ops, "reduce", "a reduction", _reduce, ("f32", "f64", "i32"), epilog)
    reduced.add_argument("sizes", type=shape, metavar="SIZES")
    reduced.add_argument("--op", choices=("sum", "max", "min", "mean"), default="sum")
    reduced.add_argument("--axis", type=int, help="default: all axes")


def _operation(
    ops: Subcommands, name: str, what: str, call: Any, dtypes: tuple[str, ...], epilog: str
) -> argparse.ArgumentParser:
    made: argparse.ArgumentParser = ops.add_parser(name, help=what, epilog=epilog)
    made.add_argument("--dtype", choices=dtypes, default="f32")
    made.add_argument(
        "-d",
        "--devices",
        type=devices,
        default="all",
        metavar="URI[,...]",
        help="default: all usable devices",
    )
    made.add_argument(
        "--from", dest="place", metavar="URI",
        help="the operands are on this device, and the result may stay where it is made; by "
        "default all are in the host's memory",
    )  # fmt: skip
    made.add_argument("--no-profile", action="store_true", help="measure again, and keep no result")
    made.add_argument("--json", action="store_true", help="the plan as JSON")
    made.set_defaults(command=explain, call=call)
    return made


def explain(args: argparse.Namespace) -> int:
    """Calls the operation of the command line several times and prints the plan of the last call.

    Raises NoSuchDevice if a device of the command line cannot be used. Raises ValueError if the
    call fails.
    """
    import sparkle_drv as sp

    try:
        context = sp.init(args.devices, profile=not args.no_profile)
    except sp.DeviceNotFound as error:
        raise NoSuchDevice(str(error)) from error
    with context as ctx:
        if args.place is not None and args.place not in [d.uri for d in ctx.devices]:
            raise NoSuchDevice(
                f"--from: expected one of {', '.join(d.uri for d in ctx.devices)}, got {args.place}"
            )
        try:
            call = args.call(ctx, args)
            for i in range(MOST_RUNS):
                plan: Any = ctx.last_plan  # `call` makes no graph: this is a call's plan
                if i >= RUNS and (plan is None or plan.measured is not None):
                    break
                call()
        except (sp.SparkleError, MemoryError, TypeError) as error:
            raise ValueError(f"the call failed: {type(error).__name__}: {error}") from error
        if args.json:
            if ctx.last_plan is None:
                raise ValueError(
                    "--json: expected a call for which a device is chosen, got one without a plan"
                )
            print(json.dumps(dataclasses.asdict(ctx.last_plan), indent=1, default=sorted))
        else:
            print(ctx.explain_last_plan())
    return OK


def _filled(
    ctx: Any, args: argparse.Namespace, *shapes: tuple[int, ...]
) -> Callable[[], list[Any]]:
    """Returns a function that makes the operands of one call: numpy arrays, or Arrays on the device
    `args.place`.
    """
    import numpy as np

    chance, kind = np.random.default_rng(7), np.dtype(DTYPES[args.dtype])
    needed = sum(math.prod(s) for s in shapes) * kind.itemsize
    most = max(device.info.memory_nbytes for device in ctx.devices)
    if needed > most:
        raise MemoryError(f"the operands are {needed} bytes, the devices have {most} at most")
    made: list[Any] = [(chance.random(s) * 2 + 1).astype(kind) for s in shapes]
    if args.place is None:
        return lambda: made
    arrays = [ctx.array(x.shape, x.dtype, device=args.place) for x in made]
    # Each call gets newly filled operands, which are on `args.place` only. Otherwise copies of an
    # earlier call would be on other devices, and the plan would not count the transfer.
    return lambda: [there.fill(x) for there, x in zip(arrays, made, strict=True)]


def _gemm(ctx: Any, args: argparse.Namespace) -> Callable[[], object]:
    m, n, k = args.sizes
    operands = _filled(ctx, args, (m, k), (k, n))
    return lambda: ctx.gemm(*operands())


def _conv2d(ctx: Any, args: argparse.Namespace) -> Callable[[], object]:
    operands = _filled(ctx, args, args.x, args.w)
    how = {name: getattr(args, name) for name in ("stride", "padding", "dilation", "groups")}
    return lambda: ctx.conv2d(*operands(), **how)


def _map(ctx: Any, args: argparse.Namespace) -> Callable[[], object]:
    names = args.names.split(",")
    operands = _filled(ctx, args, *[args.sizes] * len(names))
    return lambda: ctx.map(args.expression, **dict(zip(names, operands(), strict=True)))


def _reduce(ctx: Any, args: argparse.Namespace) -> Callable[[], object]:
    operands = _filled(ctx, args, args.sizes)
    return lambda: ctx.reduce(*operands(), args.op, args.axis)
