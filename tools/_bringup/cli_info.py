"""`bringup.py info`: what a device says of itself."""

from __future__ import annotations

import argparse

from _bench.problems import FAILED, OK

from . import about, common, report


def add(sub: common.Subcommands) -> None:
    common.command(sub, "info", run, "everything that the node says of itself, decoded")


def run(args: argparse.Namespace) -> int:
    told = about.gather(args.device)
    document = {
        "schema": report.SCHEMA, "device": args.device, "info": told, "machine": report.machine()
    }  # fmt: skip
    if args.json != "-":
        print("\n".join(about.lines({args.device: told, "machine": document["machine"]})))
    saved = not args.json or common.write_json(args.json, document)
    return OK if saved else FAILED
