"""Benchmarks that verify before they time: run kernel peak launch compare list env.

Only the command line is here; the engine is tools/_bench. `bench.py` alone is `bench.py run`.
"""

from __future__ import annotations

from _hop import hop

hop()

import argparse  # noqa: E402
import json  # noqa: E402
import logging  # noqa: E402
import os  # noqa: E402
import sys  # noqa: E402
from collections.abc import Callable, Sequence  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

from _bench import (  # noqa: E402
    baseline,
    compare,
    devices,
    env,
    listing,
    results,
    runner,
    table,
    userkernel,
)
from _bench.engine import Settings, Stuck  # noqa: E402
from _bench.problems import (  # noqa: E402
    FAILED,
    NO_DEVICE,
    OK,
    REGRESSION,
    USAGE,
    NoSuchDevice,
    NotComparable,
    UsageError,
)
from _bench.runner import Session  # noqa: E402
from _bench.writers import Outputs  # noqa: E402

from sparkle_drv.errors import SparkleError  # noqa: E402

Command = Callable[[argparse.Namespace], int]
Subcommands = Any  # argparse names no public type for what add_subparsers returns
EXIT_CODES = "exit codes: 0 well, 1 something failed, 2 usage, 3 no such device or regression found"
QUICK = {"precision": 0.05, "timeout_s": 1.0, "least": 10}


def parser() -> argparse.ArgumentParser:
    """The command line; every subcommand sets `command` to the function that runs it."""
    top = argparse.ArgumentParser(
        prog="bench.py", description=__doc__.splitlines()[0], epilog=EXIT_CODES
    )
    top.add_argument(
        "--log",
        default="warning",
        choices=("debug", "info", "warning"),
        help="what to log to stderr",
    )
    top.set_defaults(command=None)
    sub = top.add_subparsers(title="commands", metavar="COMMAND")

    run = _command(
        sub,
        "run",
        run_command,
        "manifest kernels: verified, timed, compared with this device's roof",
    )
    run.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help='"saxpy_f32", "gemm" (every dtype) or a glob; see list',
    )
    _add_axes(run)
    _add_modes(run)
    _add_measuring(run)

    kernel = _command(
        sub, "kernel", kernel_command, "your own kernel, FILE:ENTRY, without writing Python"
    )
    kernel.add_argument("image", metavar="FILE:ENTRY")
    kernel.add_argument(
        "--arg", action="append", default=[], dest="args", metavar="SPEC", help=userkernel.ARG_HELP
    )
    kernel.add_argument(
        "-D",
        action="append",
        default=[],
        dest="defines",
        metavar="NAME=V",
        help="a size; lists sweep",
    )
    kernel.add_argument(
        "--groups", default="1", metavar="X,Y,Z", help="workgroups, such as N/256 (rounded up)"
    )
    kernel.add_argument(
        "--group-size", default="256", metavar="X,Y,Z", help="threads in a group (default 256)"
    )
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
        "--tolerance", type=_positive, metavar="X", help="of max error / rms (default 100 eps)"
    )
    kernel.add_argument(
        "--unverified", action="store_true", help="print a time although there is no --ref"
    )
    _add_modes(kernel)
    _add_measuring(kernel)

    peak = _command(
        sub, "peak", peak_command, "measure this device's roofs (flops, copy) and keep them"
    )
    _add_measuring(peak)
    launch = _command(
        sub, "launch", launch_command, "what a launch costs its caller on an idle queue"
    )
    _add_measuring(launch)

    comp = _command(
        sub, "compare", compare_command, "two results files: FAST SLOW SAME AMBIGUOUS a row"
    )
    comp.add_argument("files", nargs="*", metavar="OLD NEW", help="two files written by --json")
    comp.add_argument(
        "--baseline",
        type=Path,
        metavar="DIR",
        help="instead: run now, compare with this device's file",
    )
    comp.add_argument(
        "--threshold",
        type=_positive,
        default=compare.THRESHOLD,
        help="shift that counts (default 0.05)",
    )
    comp.add_argument("--force", action="store_true", help="compare different devices all the same")
    comp.add_argument(
        "--names",
        nargs="*",
        default=[],
        metavar="NAME",
        help="with --baseline: kernels (as for run)",
    )
    _add_axes(comp)
    _add_modes(comp)
    _add_measuring(comp)

    listed = _command(sub, "list", list_command, "every kernel: signature, axes, costs, tags")
    about = _command(sub, "env", env_command, "what results from here are measured on")
    for command in (listed, about):
        command.add_argument("--json", action="store_true", help="as JSON")
    return top


def _command(sub: Subcommands, name: str, function: Command, text: str) -> argparse.ArgumentParser:
    made: argparse.ArgumentParser = sub.add_parser(
        name, help=text, description=text, epilog=EXIT_CODES
    )
    made.set_defaults(command=function)
    return made


def _add_axes(to: argparse.ArgumentParser) -> None:
    to.add_argument(
        "-a",
        "--axis",
        action="append",
        default=[],
        dest="axes",
        metavar="AXIS=SPEC",
        help="n=1M,4M  m=256..1024*2",
    )


def _add_modes(to: argparse.ArgumentParser) -> None:
    to.add_argument("--mode", default="hot", help=f"of {','.join(results.MODES)} (default hot)")


def _add_measuring(to: argparse.ArgumentParser) -> None:
    to.add_argument(
        "-d",
        "--device",
        default="cpu",
        metavar="DEV",
        help="URIs such as cpu,egl:0, or all (default cpu)",
    )
    to.add_argument(
        "--quick", action="store_true", help="5 %% precision and 1 s a row unless said otherwise"
    )
    to.add_argument(
        "--precision",
        type=_positive,
        metavar="PCT",
        help="stop at this half-width of the median, in %%",
    )
    to.add_argument(
        "--timeout", type=_positive, metavar="S", help="seconds a row at most (default 5)"
    )
    to.add_argument("--seed", type=int, help="repeat the inputs of a run that printed this seed")
    for kind in ("json", "csv", "md"):
        to.add_argument(
            f"--{kind}", type=Path, metavar="FILE", help=f"write the results as {kind.upper()}"
        )


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return value


def settings(args: argparse.Namespace, unverified: bool = False) -> Settings:
    """How to measure, from --quick --precision --timeout --seed."""
    seed = runner.fresh_seed() if args.seed is None else args.seed
    if not 0 <= seed < 1 << 64:
        raise UsageError(f"--seed {seed}: a number from 0 to 2**64 - 1 is wanted")
    made: dict[str, float | int] = dict(QUICK) if args.quick else {}
    if args.precision:
        made["precision"] = args.precision / 100
    if args.timeout:
        made["timeout_s"] = args.timeout
    return Settings(seed, unverified=unverified, **made)  # type: ignore[arg-type]


def session(args: argparse.Namespace, unverified: bool = False) -> Session:
    return Session(
        devices.resolve(args.device),
        settings(args, unverified),
        Outputs(args.json, args.csv, args.md),
    )


def modes(text: str) -> list[str]:
    """["hot", "cold"] of "hot,cold". Raises UsageError."""
    chosen = list(dict.fromkeys(mode.strip() for mode in text.split(",")))
    for mode in chosen:
        if mode not in results.MODES:
            raise UsageError(f"--mode {mode!r}: known are {', '.join(results.MODES)}")
    return chosen


def run_command(args: argparse.Namespace) -> int:
    made = session(args)
    return made.measure(
        runner.manifest_tasks(args.names, args.axes, modes(args.mode), made.settings.seed)
    )


def kernel_command(args: argparse.Namespace) -> int:
    image, entry = userkernel.split_image(args.image)
    spec = userkernel.Spec(
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
    chosen = modes(args.mode)
    jobs = [userkernel.make(spec, point) for point in userkernel.sweep(args.defines)]
    tasks = [(job, mode) for job in jobs for mode in chosen]
    timed = bool(args.ref or args.unverified)
    return session(args, args.unverified).measure(lambda info: tasks, with_roof=timed)


def peak_command(args: argparse.Namespace) -> int:
    return runner.run_peak(session(args))


def launch_command(args: argparse.Namespace) -> int:
    return runner.run_launch(session(args))


def compare_command(args: argparse.Namespace) -> int:
    if args.baseline is not None:
        if args.files or args.force:
            raise UsageError("compare --baseline takes neither files nor --force")
        args.quick = True
        made = session(args)
        tasks = runner.manifest_tasks(args.names, args.axes, modes(args.mode), made.settings.seed)
        return baseline.gate(args.baseline, made, tasks, args.threshold)
    if len(args.files) != 2:
        raise UsageError("compare: two files, OLD and NEW, or --baseline DIR are wanted")
    old, new = (results.load(Path(name)) for name in args.files)
    pairs = compare.compare(old, new, args.threshold, args.force)
    for which, document in (("old", old), ("new", new)):
        print(f"# {which}: {compare.conditions(document)}")
    compare.show(pairs)
    if any(pair.is_broken for pair in pairs):
        return FAILED
    return REGRESSION if any(pair.is_regression for pair in pairs) else OK


def list_command(args: argparse.Namespace) -> int:
    entries = listing.entries(runner.manifest())
    if args.json:
        print(json.dumps(entries, indent=1))
    else:
        table.show(listing.COLUMNS, [listing.cells(entry) for entry in entries])
    return OK


def env_command(args: argparse.Namespace) -> int:
    facts = env.describe()
    if args.json:
        print(json.dumps(facts, indent=1))
    else:
        for key, value in facts.items():
            print(f"{key:20} {value if value is not None else '-'}")
    return OK


def main(argv: Sequence[str]) -> int:
    """Runs one command; what is wrong with it is one line on stderr and an exit code, never a
    traceback.
    """
    top = parser()
    args = top.parse_args(argv or ["run"])
    logging.basicConfig(level=args.log.upper(), format="%(levelname)s %(name)s: %(message)s")
    if args.command is None:
        top.print_usage(sys.stderr)
        return USAGE
    try:
        code: int = args.command(args)
        return code
    except BrokenPipeError:
        # Whoever read us has gone (`| head`): nothing more to say, also not when the interpreter
        # flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except (UsageError, SparkleError, OSError, ValueError, TypeError, ImportError) as error:
        print(f"bench.py: {_line(error)}", file=sys.stderr)
        return USAGE if isinstance(error, UsageError) else FAILED
    except (NotComparable, Stuck) as error:
        print(f"bench.py: {_line(error)}", file=sys.stderr)
        return FAILED
    except NoSuchDevice as error:
        print(f"bench.py: {_line(error)}", file=sys.stderr)
        return NO_DEVICE
    except KeyboardInterrupt:
        print("bench.py: interrupted", file=sys.stderr)
        return FAILED


def _line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
