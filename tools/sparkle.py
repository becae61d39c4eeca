"""What computes and where work goes. Subcommands: info doctor explain trace replay mesh certs node.

This file has `info` and `doctor`, which print what sparkle_drv.discover() finds. The other commands
are _sparkle/*.py. `python -m sparkle_drv info` works, too.
"""

from __future__ import annotations

from _reexec import reexec

reexec()

import argparse  # noqa: E402
import dataclasses  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import sys  # noqa: E402
from collections.abc import Iterator, Sequence  # noqa: E402
from typing import TYPE_CHECKING, Any  # noqa: E402

from _console import command_line, output  # noqa: E402
from _console.problems import FAILED, NO_DEVICE, OK, USAGE, NoSuchDevice, UsageError  # noqa: E402
from _sparkle import certs, explain, mesh, node, replay, trace  # noqa: E402
from _sparkle.common import EXIT_CODES  # noqa: E402

if TYPE_CHECKING:
    import sparkle_drv as sp
    from sparkle_drv.types import Found

PROG = command_line.called("sparkle.py")
CHECK_TIMEOUT_S = 10.0
CPU_VARIABLES = ("SPARKLE_CPU_ISA", "SPARKLE_THREADS")  # sparkle_drv/core/settings.py


def parser() -> argparse.ArgumentParser:
    top = command_line.top(PROG, __doc__, EXIT_CODES)
    sub = command_line.commands(top)
    info = sub.add_parser("info", help="the usable devices, best first", epilog=EXIT_CODES)
    info.add_argument("--json", action="store_true", help="as JSON, with every field of DeviceInfo")
    info.set_defaults(command=info_command)
    doctor = sub.add_parser(
        "doctor", help="every backend: what was tried, what failed, what to do", epilog=EXIT_CODES
    )
    doctor.set_defaults(command=doctor_command)
    for command in (explain, trace, replay, mesh, certs, node):
        command.add(sub, EXIT_CODES)
    return top


def size(nbytes: int) -> str:
    """Returns a size such as "24 GiB", with at most one decimal."""
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if nbytes >= factor:
            return f"{nbytes / factor:.1f}".removesuffix(".0") + f" {unit}"
    return f"{nbytes} bytes"


def described(info: sp.DeviceInfo) -> Iterator[tuple[str, str]]:
    """Yields the facts about a device that a person asks for first, as (name, value)."""
    yield "name", info.name
    yield (
        "kind",
        ", ".join(
            [info.kind, *(w for w in ("emulated", "software", "unified") if getattr(info, w))]
        ),
    )
    yield "driver", info.driver
    yield "memory", size(info.memory_nbytes)
    yield (
        "compute units",
        f"{info.compute_units} ({info.isa})" if info.isa else str(info.compute_units),
    )
    yield (
        "caches",
        ", ".join(f"L{c.level} {size(c.nbytes)} shared by {c.shared_by}" for c in info.caches),
    )
    yield "group size", f"{info.max_group_size} at most"
    yield "shared memory", size(info.max_shared_nbytes) if info.max_shared_nbytes else ""
    yield "shares", ", ".join(info.shares)
    yield "features", ", ".join(info.features)
    yield "PCI slot", info.slot
    yield (
        "measured",
        ", ".join(
            f"{rate:.4g} {what}"
            for rate, what in (
                (info.peak_gflops, "GFLOPS of float32"),
                (info.mem_bw_gbs, "GB/s of its memory"),
            )
            if rate
        ),
    )


def info_command(args: argparse.Namespace) -> int:
    """Lists the devices. Returns 3 when there are none."""
    import sparkle_drv as sp

    devices = sp.devices()
    if args.json:
        document: dict[str, Any] = {
            "version": sp.__version__,
            "devices": [dataclasses.asdict(d) for d in devices],
        }
        print(json.dumps(document, indent=1))
    else:
        print(f"sparkle_drv {sp.__version__}")
        for device in devices:
            print(f"\n{device.uri}")
            for name, value in described(device):
                if value:
                    print(f"  {name:14} {value}")
    if not devices:
        print("no usable device; `sparkle.py doctor` says what was tried", file=sys.stderr)
    return OK if devices else NO_DEVICE


def doctor_command(args: argparse.Namespace) -> int:
    """Examines every device of every backend and opens those that look usable. Returns the exit
    code.
    """
    import sparkle_drv as sp

    print(f"sparkle_drv {sp.__version__} in {next(iter(sp.__path__))}")
    wrong = _set_aside_nonsense()
    for complaint in wrong:
        print(f"\ncpu (cpu): does not work\n  {complaint}\n  to do  unset it, or correct it")
    # `wrong` names environment variables with which the cpu does not work. They are unset only in
    # this process, so the cpu would seem to work. It is therefore left out.
    found = [node for node in sp.discover() if not (wrong and node.backend == "cpu")]
    codes = [FAILED] * bool(wrong) + [_examine(node) for node in found]
    if not wrong and not any(node.usable for node in found):
        print("\nno usable device", file=sys.stderr)
        return NO_DEVICE
    return max(codes)


def _set_aside_nonsense() -> list[str]:
    """Unsets environment variables of the cpu backend that have wrong values, so that the other
    backends can be examined.

    Returns discover()'s complaints about these variables. Raises ValueError if discover() complains
    about anything else.
    """
    import sparkle_drv as sp

    complaints: list[str] = []
    while True:
        try:
            sp.discover()
            return complaints
        except ValueError as error:
            guilty = [v for v in CPU_VARIABLES if v in os.environ and str(error).startswith(v)]
            if not guilty:
                raise
            complaints.append(str(error))
            del os.environ[guilty[0]]


def _examine(node: Found) -> int:
    """Prints the facts about one device. Returns 1 if it looked usable but does not work."""
    if node.info is None:
        verdict, code, said, advice = (
            "not usable",
            OK,
            node.reason or "no reason given",
            node.advice,
        )
    else:
        complaint = _try(node.uri)
        verdict, code = ("works", OK) if not complaint else ("does not work", FAILED)
        said, advice = complaint or node.info.name, node.advice
    print(f"\n{node.uri} ({node.backend}): {verdict}")
    for tried in node.tried:
        print(f"  tried  {tried}")
    for line in said.splitlines():
        print(f"  {line}")
    if advice:
        print(f"  to do  {advice}")
    return code


def _try(uri: str) -> str:
    """Opens a device and runs an empty kernel. Returns the text of the error, or ""."""
    import sparkle_drv as sp

    try:
        with sp.open(uri) as device, device.queue() as queue:  # type: ignore[attr-defined, unused-ignore]
            queue.launch(device.kernel("noop"), groups=1).wait(CHECK_TIMEOUT_S)
    except (sp.SparkleError, OSError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def main(argv: Sequence[str]) -> int:
    """Runs one command and returns its exit code. An error becomes one line on stderr, never a
    traceback.
    """
    return output.guarded(PROG, lambda: _main(argv))


def _main(argv: Sequence[str]) -> int:
    args = parser().parse_args(argv)
    try:
        code: int = args.command(args)
        return code
    except NoSuchDevice as error:
        print(f"{PROG}: {error}", file=sys.stderr)
        return NO_DEVICE
    except UsageError as error:
        print(f"{PROG}: {error}", file=sys.stderr)
        return USAGE
    except ImportError as error:
        print(
            f"sparkle.py: the package does not load: {error}; `make build` builds it again",
            file=sys.stderr,
        )
    except (OSError, ValueError) as error:
        print(f"{PROG}: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        print(f"{PROG}: interrupted", file=sys.stderr)
    return FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
