"""Commands list and env: what there is, and what results from here are measured on."""

from __future__ import annotations

import argparse
import json

from . import cli, env, listing, runner, table
from .problems import OK


def add(sub: cli.Subcommands) -> None:
    listed = cli.command(sub, "list", list_command, "every kernel: signature, axes, costs, tags")
    about = cli.command(sub, "env", env_command, "what results from here are measured on")
    for command in (listed, about):
        command.add_argument("--json", action="store_true", help="as JSON")


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
