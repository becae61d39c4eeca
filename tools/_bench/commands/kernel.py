"""Command kernel: a user's own kernel, what the command line says about it."""

from __future__ import annotations

import argparse

from _console.problems import UsageError

from _bench.jobs import images, user_kernel
from _bench.rows import compare

from . import options


def add(sub: options.Subcommands) -> None:
    kernel = options.command(
        sub, "kernel", kernel_command, "your own kernel, FILE:ENTRY, without writing Python"
    )
    kernel.add_argument("image", metavar="FILE:ENTRY")
    kernel.add_argument(
        "--vs",
        action="append",
        default=[],
        metavar="FILE:ENTRY",
        help="a kernel with the same arguments, measured in turns; may be repeated",
    )
    kernel.add_argument(
        "--threshold",
        type=options.positive,
        metavar="X",
        help=f"with --vs: the shift that counts (default {compare.THRESHOLD})",
    )
    kernel.add_argument(
        "--arg", action="append", default=[], dest="args", metavar="SPEC", help=user_kernel.ARG_HELP
    )
    kernel.add_argument(
        "-D",
        action="append",
        default=[],
        dest="defines",
        metavar="NAME=V",
        help="a size, and a macro in GLSL; lists sweep",
    )
    kernel.add_argument(
        "--groups", default="1", metavar="X,Y,Z", help="workgroups, such as N/GX (rounded up)"
    )
    kernel.add_argument(
        "--group-size",
        default="",
        metavar="X,Y,Z[:...]",
        help="threads in a group (default 256, or what a GLSL source says); 8,8:16,16 sweeps",
    )
    _add_costs(kernel)
    options.add_modes(kernel)
    options.add_measuring(kernel)
    options.add_resume(kernel)
    options.add_drawing(kernel)


def _add_costs(kernel: argparse.ArgumentParser) -> None:
    """What a launch costs, and what its result is judged by."""
    kernel.add_argument("--flops", default="0", metavar="E", help="flops of a launch, such as 2*N")
    kernel.add_argument(
        "--bytes",
        default="",
        metavar="E",
        help="bytes moved (default: every array as often as used)",
    )
    kernel.add_argument(
        "--ref",
        default="",
        metavar="FILE.py:fn",
        help="numpy function (inputs in order) -> outputs",
    )
    kernel.add_argument(
        "--tolerance",
        type=options.positive,
        metavar="X",
        help="of max error / rms (default 100 eps)",
    )
    kernel.add_argument(
        "--unverified", action="store_true", help="print a time although there is no --ref"
    )


def kernel_command(args: argparse.Namespace) -> int:
    image, entry = images.split_image(args.image)
    spec = user_kernel.Spec(
        image,
        entry,
        tuple(args.args),
        args.groups,
        args.group_size,
        args.flops,
        args.bytes,
        args.ref,
        args.tolerance,
    )
    chosen = options.modes(args.mode)
    if args.vs and "pipeline" in chosen:
        raise UsageError("--mode pipeline: what it leaves in flight would fall on --vs's samples")
    if args.threshold and not args.vs:
        raise UsageError("--threshold belongs to --vs")
    jobs = [
        user_kernel.against(user_kernel.make(spec, point), spec, args.vs, point)
        for point in user_kernel.sweep(args.defines, args.group_size)
    ]
    tasks = [(job, mode) for job in jobs for mode in chosen]
    made = options.session(args, args.unverified)
    made.threshold = args.threshold or compare.THRESHOLD
    return made.measure(lambda info: tasks)
