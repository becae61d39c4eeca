"""The lint command: finds errors in IBs, and packets that would hang silicon, by rules that name
their source.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from _console.problems import FAILED, OK, UsageError

from sparkle_drv import lowlevel
from sparkle_drv.lowlevel import Kernel

from . import common
from .common import InputError

DESCRIPTOR_BYTES = 64


def add(sub: common.Subcommands) -> None:
    made = common.command(
        sub, "lint", lint, "errors in the IBs of a job; exit 1 unless there are only notes"
    )
    made.add_argument("files", nargs="*", metavar="FILE", help=common.INPUT)
    common.add_inputs(made)
    made.add_argument(
        "--disable", action="append", default=[], metavar="ID", help="leave a rule out"
    )
    made.add_argument("--rules", action="store_true", help="only list the rules")
    made.add_argument(
        "--lds",
        type=int,
        metavar="BYTES",
        help="the kernel's LDS in bytes, static and dynamic: LDS_SIZE must equal it",
    )
    made.add_argument(
        "--descriptor",
        type=Path,
        metavar="FILE",
        help="the kernel's descriptor, 64 bytes: RSRC registers and LDS must equal it",
    )
    made.add_argument("--json", action="store_true", help="findings, or rules, as JSON")


def lint(args: argparse.Namespace) -> int:
    if args.rules:
        return rules(args)
    if not args.files:
        raise UsageError("lint: expected a file, or --rules")
    if unknown := set(args.disable) - lowlevel.RULES.keys():
        raise UsageError(
            f"--disable: expected rules that --rules lists, got {', '.join(sorted(unknown))}"
        )
    ibs = common.read_all(args, args.files)
    found = lowlevel.lint(ibs, args.disable, kernel(args, ibs[0].gfx))
    if args.json:
        common.write_json(
            {
                "findings": [
                    {
                        "id": one.rule.id,
                        "severity": one.severity,
                        "message": one.message,
                        "source": one.rule.source,
                        "explanation": one.rule.explanation,
                        "ib": one.ib,
                        "dword": one.dword,
                        "packet": one.packet,
                    }
                    for one in found
                ]
            }
        )
    else:
        for one in found:
            print(one)
        for rule in {one.rule.id: one.rule for one in found}.values():
            print(f"\n{rule.id} ({rule.source}): {rule.explanation}")
    return FAILED if any(one.fails for one in found) else OK


def kernel(args: argparse.Namespace, gfx: int) -> Kernel:
    """Returns what --descriptor and --lds say about the kernel. --lds overrides the size of the LDS
    in the descriptor.
    """
    if args.lds is not None and args.lds < 0:
        raise UsageError(f"--lds: expected a number of bytes, got {args.lds}")
    if args.descriptor is None:
        return Kernel(lds_bytes=args.lds)
    data = args.descriptor.read_bytes()
    if len(data) != DESCRIPTOR_BYTES:
        raise InputError(
            f"{args.descriptor}: expected a kernel descriptor of {DESCRIPTOR_BYTES} bytes, got "
            f"{len(data)}"
        )
    dwords = lowlevel.from_bytes(data, gfx).dwords
    try:
        told = lowlevel.descriptors.KernelDescriptor.decode(dwords, gfx)
    except ValueError as error:
        raise InputError(
            f"{args.descriptor}: cannot decode the kernel descriptor: {error}"
        ) from None
    return Kernel(
        told["group_segment_fixed_size"] if args.lds is None else args.lds,
        *(told[f"compute_pgm_rsrc{n}"] for n in (1, 2, 3)),
    )


def rules(args: argparse.Namespace) -> int:
    every = lowlevel.RULES.values()
    if args.json:
        names = ("id", "severity", "source", "explanation")
        common.write_json({"rules": [{n: getattr(rule, n) for n in names} for rule in every]})
        return OK
    for rule in every:
        print(f"{rule.id} ({rule.severity}, {rule.source}): {rule.explanation}")
    return OK
