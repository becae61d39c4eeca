"""The kernel command: measures a user's own kernel, which the command line describes."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING

from _console.problems import UsageError

from _bench.jobs import compilers, images, sweeps, user_args, user_kernel
from _bench.measure import emulated_rows
from _bench.rows import shift
from _bench.tune import sweep_search
from _bench.tune.sweep_search import SweepSearch

from . import options, runner

if TYPE_CHECKING:
    import sparkle_drv as sp


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
        help=f"with --vs: the shift that counts as a change (default {shift.THRESHOLD})",
    )
    kernel.add_argument(
        "--arg", action="append", default=[], dest="args", metavar="SPEC", help=user_args.HELP
    )
    kernel.add_argument(
        "-D",
        action="append",
        default=[],
        dest="defines",
        metavar="NAME=V",
        help="a size, and a macro in GLSL; 64,128 or 1:8:*2 or 1K..8K sweeps",
    )
    kernel.add_argument(
        "--where",
        action="append",
        default=[],
        metavar="COND",
        help="keep the combinations that meet this condition, such as 'BLOCK*UNROLL<=1024'",
    )
    kernel.add_argument(
        "--search",
        type=options.positive,
        metavar="S",
        help="measure the most promising points of the sweep, for so many seconds per device",
    )
    kernel.add_argument(
        "--groups", default="1", metavar="X,Y,Z", help="workgroups, such as N/GX (rounded up)"
    )
    kernel.add_argument(
        "--group-size",
        default="",
        metavar="X,Y,Z[:...]",
        help="threads in a group (default 256, or the GLSL source's own); 8,8:16,16 sweeps",
    )
    _add_costs(kernel)
    options.add_modes(kernel)
    options.add_measuring(kernel)
    options.add_resume(kernel)
    options.add_drawing(kernel)
    kernel.add_argument(
        "--launch-timeout",
        type=options.positive,
        metavar="S",
        help="seconds after which a launch counts as hung (default 10 rows' time, >= 10)",
    )


def _add_costs(kernel: argparse.ArgumentParser) -> None:
    """Adds the options for the cost of a launch and for the check of its result."""
    kernel.add_argument("--flops", default="0", metavar="E", help="flops per launch, such as 2*N")
    kernel.add_argument(
        "--bytes",
        default="",
        metavar="E",
        help="bytes moved per launch (default: every array as often as used)",
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
        raise UsageError(
            "--mode pipeline: expected no --vs, got one: pipelined launches would disturb the "
            "samples of the other kernels"
        )
    if args.threshold and not args.vs:
        raise UsageError("--threshold: expected --vs, too")
    if args.search:
        _check_search(args)
    rivals = [user_kernel.rival(text) for text in args.vs]
    images_used = [image, *(one.image for one in rivals)]
    jobs = [
        user_kernel.against(user_kernel.make(spec, point), spec, rivals, point)
        for point in sweeps.sweep(args.defines, args.group_size, args.where)
    ]
    tasks = [(job, mode) for job in jobs for mode in chosen]
    made = options.session(args, args.unverified)
    made.threshold = args.threshold or shift.THRESHOLD
    made.isolated = True
    if args.search:
        made.search = SweepSearch(args.search, made.settings.seed)
        if not args.timeout:
            timeout_s = min(made.settings.timeout_s, args.search / sweep_search.ROWS)
            made.settings = replace(made.settings, timeout_s=timeout_s)

    def checked(device: sp.Device) -> list[runner.Task]:
        for path in images_used:
            compilers.check(path, device.info)
        if args.search:
            emulated_rows.refuse(device.info, "--search")
        return tasks

    return made.measure(checked)


def _check_search(args: argparse.Namespace) -> None:
    """Raises UsageError for options that --search excludes."""
    if args.vs:
        raise UsageError("--search and --vs: search first, then compare the best with --vs")
    if not args.ref:
        raise UsageError("--search: expected --ref, which tells correct points from wrong ones")
    if len(sweeps.sweep(args.defines, args.group_size, args.where)) < 2:
        raise UsageError("--search: expected a sweep: -D NAME=V1,V2 or several --group-size")
