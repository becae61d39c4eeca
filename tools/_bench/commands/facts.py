"""The list and env commands, which print the kernels, and the machine on which results
are measured.
"""

from __future__ import annotations

import argparse
import json

from _console import table
from _console.problems import OK

from _bench.jobs import catalog
from _bench.machine import env

from . import listing, options


def add(sub: options.Subcommands) -> None:
    listed = options.command(
        sub, "list", list_command, "every kernel: signature, axes, costs, tags"
    )
    about = options.command(sub, "env", env_command, "the machine that results are measured on")
    for command in (listed, about):
        command.add_argument("--json", action="store_true", help="as JSON")


def list_command(args: argparse.Namespace) -> int:
    entries = listing.entries(catalog.manifest())
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
