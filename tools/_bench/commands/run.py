"""The run, peak and launch commands: their options, and the functions that they call."""

from __future__ import annotations

import argparse

from . import options, runner


def add(sub: options.Subcommands) -> None:
    run = options.command(
        sub,
        "run",
        run_command,
        "manifest kernels: verified, timed, with their share of the roof",
    )
    run.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help='"saxpy_f32", "gemm" (every dtype) or a glob; see list',
    )
    options.add_axes(run)
    options.add_modes(run)
    options.add_measuring(run)
    options.add_resume(run)
    options.add_drawing(run)


def add_peak(sub: options.Subcommands) -> None:
    peak = options.command(
        sub, "peak", peak_command, "measure this device's roofs: flops, copy, read"
    )
    options.add_measuring(peak)
    options.add_drawing(peak)


def add_launch(sub: options.Subcommands) -> None:
    launch = options.command(
        sub, "launch", launch_command, "the cost of a launch to its caller, on an idle queue"
    )
    options.add_measuring(launch)
    options.add_drawing(launch)


def run_command(args: argparse.Namespace) -> int:
    made = options.session(args)
    return made.measure(
        runner.manifest_tasks(args.names, args.axes, options.modes(args.mode), made.settings.seed)
    )


def peak_command(args: argparse.Namespace) -> int:
    return runner.run_peak(options.session(args))


def launch_command(args: argparse.Namespace) -> int:
    return runner.run_launch(options.session(args))
