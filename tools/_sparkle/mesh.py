"""The mesh command: prints links between devices, their routes, and the predicted time of an
all_reduce.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING

from _console import output
from _console.problems import FAILED, OK, NoSuchDevice, UsageError

from . import mesh_picture
from .common import Subcommands, devices

if TYPE_CHECKING:
    from sparkle_drv import Mesh

NBYTES = {"4 KiB": 1 << 12, "1 MiB": 1 << 20, "64 MiB": 1 << 26}
"""The sizes, in bytes, for which routes and all_reduces are printed."""


def add(sub: Subcommands, epilog: str) -> None:
    """Adds the subcommand `mesh` and its options to sparkle.py."""
    made = sub.add_parser(
        "mesh",
        help="the links between devices: rates, latencies, routes, a picture",
        description="Measures unknown links between devices, and prints their rates "
        "and latencies, routes over other devices, and plans of an all_reduce.",
        epilog=epilog,
    )
    made.add_argument(
        "-d", "--devices", type=devices, default="all", metavar="URI[,...]",
        help="default: all usable devices",
    )  # fmt: skip
    made.add_argument("--no-profile", action="store_true", help="measure again, and keep no result")
    made.add_argument("--svg", type=Path, metavar="F", help="draw the mesh to this file")
    made.set_defaults(command=mesh)


def mesh(args: argparse.Namespace) -> int:
    """Prints the facts about the mesh. Raises NoSuchDevice if a device cannot be opened."""
    import sparkle_drv as sp

    if args.svg is not None and not args.svg.parent.is_dir():  # checked before the mesh is measured
        raise FileNotFoundError(f"{args.svg}: expected an existing folder, got none")
    try:
        context = sp.init(args.devices, profile=not args.no_profile)
    except sp.DeviceNotFound as error:
        raise NoSuchDevice(str(error)) from error
    except ValueError as error:
        raise UsageError(str(error)) from error
    named = "all" if args.devices == "all" else [device.uri for device in context.devices]
    with context as ctx, ctx.create_mesh(named) as one:
        try:
            topology = one.topology
        except (sp.SparkleError, MemoryError) as error:
            raise ValueError(f"cannot measure the mesh: {type(error).__name__}: {error}") from error
        print(topology)
        for line in (*_routes(one), *_plans(one)):
            print(line)
        if args.svg is not None:
            text = mesh_picture.svg(topology)
            return OK if output.save("sparkle.py mesh", args.svg, text) else FAILED
    return OK


def _routes(one: Mesh) -> Iterator[str]:
    """Yields lines with the routes that are not direct, for each size of transfer in NBYTES."""
    if len(one.devices) < 3:
        return
    yield "\nroutes"
    for name, nbytes in NBYTES.items():
        routes = [one.best_route(*pair, nbytes) for pair in permutations(one.devices, 2)]
        over = [route for route in routes if not route.direct]
        yield f"  {name}: {len(routes) - len(over)} of {len(routes)} are direct"
        yield from (f"    {route}" for route in over)


def _plans(one: Mesh) -> Iterator[str]:
    if len(one.devices) < 2:
        return
    yield "\nall_reduce of float32"
    for name, nbytes in NBYTES.items():
        yield f"  {name}: {one.plan_all_reduce(nbytes)}"
