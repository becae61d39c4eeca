"""Commands run, peak and launch: what they take and what they call."""

from __future__ import annotations

import argparse

from . import cli, runner


def add(sub: cli.Subcommands) -> None:
    run = cli.command(
        sub,
        "run",
        run_command,
        "manifest kernels: verified, timed, and their share of the roof beside each",
    )
    run.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help='"saxpy_f32", "gemm" (every dtype) or a glob; see list',
    )
    cli.add_axes(run)
    cli.add_modes(run)
    cli.add_measuring(run)
    cli.add_drawing(run)


def add_peak(sub: cli.Subcommands) -> None:
    peak = cli.command(sub, "peak", peak_command, "measure this device's roofs: flops, copy, read")
    cli.add_measuring(peak)
    cli.add_drawing(peak)


def add_launch(sub: cli.Subcommands) -> None:
    launch = cli.command(
        sub, "launch", launch_command, "what a launch costs its caller on an idle queue"
    )
    cli.add_measuring(launch)
    cli.add_drawing(launch)


def run_command(args: argparse.Namespace) -> int:
    made = cli.session(args)
    return made.measure(
        runner.manifest_tasks(args.names, args.axes, cli.modes(args.mode), made.settings.seed)
    )


def peak_command(args: argparse.Namespace) -> int:
    return runner.run_peak(cli.session(args))


def launch_command(args: argparse.Namespace) -> int:
    return runner.run_launch(cli.session(args))
