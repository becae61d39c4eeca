"""The node command: lends this machine's devices to clients that have a certificate.

The node itself is sparkle_drv/cluster/node. This file has its command line, signals and exit codes.
"""

from __future__ import annotations

import argparse
import os
import select
import signal
import sys
from pathlib import Path

from _console.problems import OK, NoSuchDevice, UsageError

from .common import Subcommands, devices, home

LISTEN = "tls/0.0.0.0:7447"
PACKAGES = ("cryptography", "zenoh", "msgpack")


def add(sub: Subcommands, epilog: str) -> None:
    """Adds the subcommand `node` and its options to sparkle.py."""
    made = sub.add_parser(
        "node",
        help="lend this machine's devices to clients with a certificate",
        description="Lends devices until it is interrupted. Certificates are in "
        "SPARKLE_HOME/cluster: `sparkle certs` makes them.",
        epilog=epilog,
    )
    made.add_argument(
        "-d", "--devices", type=devices, default="all", metavar="URI[,...]",
        help="default: all usable devices",
    )  # fmt: skip
    made.add_argument(
        "--listen", action="append", metavar="tls/HOST:PORT", help=f"{LISTEN} by default"
    )
    made.add_argument(
        "--join", action="append", default=[], metavar="tls/HOST:PORT", help="nodes to connect to"
    )
    made.add_argument(
        "--trust-code", action="append", default=[], type=Path, metavar="CERT",
        help="the certificate of a client whose own kernels may run here",
    )  # fmt: skip
    made.add_argument(
        "--quota", action="append", default=[], metavar="NAME=N[,...]",
        help="limits of a client: memory=8G,queues=16,...",
    )  # fmt: skip
    made.set_defaults(command=node)


def node(args: argparse.Namespace) -> int:
    """Lends the devices until SIGINT or SIGTERM.

    Raises UsageError for a wrong argument, and NoSuchDevice if a device cannot be opened. Raises
    ValueError if the node cannot use its certificates, and OSError if a file cannot be read.
    """
    try:
        from sparkle_drv.cluster.node import process, quotas
        from sparkle_drv.cluster.refused import Refused
        from sparkle_drv.cluster.transport import links
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in PACKAGES:
            raise
        raise UsageError(
            f"node: expected the package {package}, got none: install sparkle_drv[cluster]"
        ) from error
    from sparkle_drv import DeviceNotFound

    try:
        limits = quotas.parse(",".join(args.quota))
    except ValueError as error:
        raise UsageError(f"node: wrong argument: {error}") from error
    links.hear(_say)
    # A signal may be delivered to a thread of Zenoh, which does not wake this thread. The pipe
    # does.
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(wakes)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    try:
        made = process.Process(
            home(), None if args.devices == "all" else args.devices,
            listen=args.listen or [LISTEN], join=args.join, quotas=limits,
            trusted=args.trust_code, say=_say,
        )  # fmt: skip
    except Refused as error:
        raise ValueError(str(error)) from error
    except DeviceNotFound as error:
        raise NoSuchDevice(str(error)) from error
    made.run(lambda timeout_s: select.select([woken], [], [], timeout_s)[0])
    # os._exit ends the process at once: a thread of Zenoh that calls into an interpreter during its
    # shutdown would abort.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(OK)


def _say(line: str) -> None:
    print(line, flush=True)
