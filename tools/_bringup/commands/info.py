"""`bringup.py info` prints the facts that a device gives about itself."""

from __future__ import annotations

import argparse

from _console.problems import FAILED, OK

from _bringup.ladder import device_facts
from _bringup.results import report

from . import options


def add(sub: options.Subcommands) -> None:
    options.command(sub, "info", run, "all facts of the node, decoded")


def run(args: argparse.Namespace) -> int:
    told = device_facts.gather(args.device)
    document = {
        "schema": report.SCHEMA, "device": args.device, "info": told, "machine": report.machine()
    }  # fmt: skip
    if args.json != "-":
        print("\n".join(device_facts.lines({args.device: told, "machine": document["machine"]})))
    saved = not args.json or options.write_json(args.json, document)
    return OK if saved else FAILED
