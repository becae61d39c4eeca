"""The certs command: a CA; certificates of nodes, routers and clients; requests, revocation,
renewal.

The certificates are in SPARKLE_HOME/cluster. sparkle_drv/cluster/trust makes and reads them; this
file has the command line and its output.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from _console.problems import OK, UsageError

from .common import Subcommands, home

if TYPE_CHECKING:
    from sparkle_drv.cluster.trust.identity import Identity

Command = Callable[[argparse.Namespace], None]
Made = TypeVar("Made")


def add(sub: Subcommands, epilog: str) -> None:
    """Adds the subcommand `certs`, with subcommands of its own, to sparkle.py."""
    made = sub.add_parser(
        "certs",
        help="certificates of nodes and clients, and the CA that signs them",
        description="Makes and shows the certificates in SPARKLE_HOME/cluster, by default "
        "~/.sparkle/cluster.",
        epilog=epilog,
    )
    commands = made.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def command(name: str, what: str, run: Command, *arguments: str) -> argparse.ArgumentParser:
        one: argparse.ArgumentParser = commands.add_parser(
            name, help=what, description=f"{what[0].upper()}{what[1:]}.", epilog=epilog
        )
        one.set_defaults(command=certs, run=run)
        for argument in arguments:
            hosts = argument == "HOST"
            one.add_argument(argument.lower(), metavar=argument, nargs="*" if hosts else None)
        return one

    command("init", "make a CA here", init)
    for role, arguments in (("node", ("NAME", "HOST")), ("router", ("NAME", "HOST")),
                            ("client", ("NAME",))):  # fmt: skip
        one = command(role, f"make a key and a certificate of a {role}", issue, *arguments)
        one.set_defaults(role=role, host=[])
        _made_files(one, "another machine's SPARKLE_HOME/cluster; by default they are for this one")
    command(
        "request", "make a key here and a request to the CA, request.pem", request,
        "NAME", "ROLE", "HOST",
    )  # fmt: skip
    _made_files(
        command("sign", "make the certificate for a request", sign, "FILE"),
        "the requesting machine's SPARKLE_HOME/cluster",
        required=True,
    )
    command("revoke", "refuse every key of a name from now on", revoke, "NAME")
    command("renew", "make a new certificate for the key that is here", renew)
    command("show", "print what is here, and how long it is valid", show)


def _made_files(one: argparse.ArgumentParser, whose: str, required: bool = False) -> None:
    one.add_argument(
        "--out", type=Path, metavar="DIR", required=required, help=f"a folder to copy to {whose}"
    )
    one.add_argument(
        "--days", type=float, default=1.0, help="life of the certificate; 1 by default"
    )


def certs(args: argparse.Namespace) -> int:
    """Runs the subcommand of `certs` that the command line names.

    Raises UsageError for a wrong argument or without the package cryptography. Raises ValueError
    when cluster/trust refuses the request, and OSError when a file cannot be read or written.
    """
    try:
        from sparkle_drv.cluster import refused
        from sparkle_drv.cluster.trust import authority  # noqa: F401  fails without its packages
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "cryptography":
            raise
        raise UsageError(
            "certs: expected the package cryptography, got none: install sparkle_drv[cluster]"
        ) from error
    try:
        args.run(args)
    except refused.Refused as error:
        raise ValueError(str(error)) from error
    return OK


def init(args: argparse.Namespace) -> None:
    from sparkle_drv.cluster.trust import authority

    ca = authority.init(home())
    print(f"{ca.name} is in {ca.folder}; keep ca.key there: its owner can make any certificate")


def issue(args: argparse.Namespace) -> None:
    from sparkle_drv.cluster.trust import authority, files

    ca = authority.load(home())
    into = args.out or files.folder(home())
    for name in (files.KEY, files.CERTIFICATE):
        if (into / name).exists():
            raise FileExistsError(
                f"{into / name}: expected no such file, got one, which was not changed; "
                "`certs renew` renews a certificate; for a revoked one, first remove "
                f"{files.KEY} and {files.CERTIFICATE}; "
                "--out DIR writes the files for another machine elsewhere"
            )
    files.write(into, _typed(lambda: ca.issue(args.name, args.role, tuple(args.host), args.days)))
    print(f"{args.role} {args.name}: {into}" + _to_copy(args.out))


def request(args: argparse.Namespace) -> None:
    from sparkle_drv.cluster.trust import certificates, files, requests

    into = files.folder(home())
    of = _typed(lambda: certificates.subject(args.role, args.name, tuple(args.host)))
    print(f"{of}: {into / files.REQUEST}, key {requests.begun(into, of)}")
    print(
        "copy request.pem to the CA's machine and type `sparkle certs sign request.pem --out DIR`"
    )


def sign(args: argparse.Namespace) -> None:
    from sparkle_drv.cluster.trust import authority, certificates, files, requests

    ca = authority.load(home())
    data = files.read(Path(args.file), "expected a request.pem")
    of, made = _typed(lambda: ca.sign(data, args.days))
    files.write(args.out, made)
    key = requests.checked(data, args.file)[1]
    print(f"signed: {of}, hosts {', '.join(of.hosts) or 'none'}")
    print(f"  key {certificates.key_hash(key).hex()}: `certs request` printed the same")
    print(f"{args.out}" + _to_copy(args.out))


def revoke(args: argparse.Namespace) -> None:
    from sparkle_drv.cluster.trust import authority, files

    ca = authority.load(home())
    for of in _typed(lambda: ca.revoke(args.name)):
        print(f"revoked: a key of {of}")
    print(f"copy {ca.folder / files.REVOKED} to every node; renewals bring it, too")


def renew(args: argparse.Namespace) -> None:
    from sparkle_drv.cluster.trust import identity, renewal

    _tell(renewal.renew(identity.read(home())))


def show(args: argparse.Namespace) -> None:
    """Prints all certificates, also those that are not valid. The error of an invalid certificate
    follows it.
    """
    from sparkle_drv.cluster.trust import authority, certificates, files, identity

    folder = files.folder(home())
    if (folder / files.CA_KEY).exists():
        ca = authority.load(home())
        print(f"{ca.name}: its key is here")
        for of, made in ca.issued():
            key = certificates.of_p256(made.public_key())
            revoked = ", revoked" if ca.revoked.has(key) else ""
            print(f"  {of}: until {certificates.written(made.not_valid_after_utc)}{revoked}")
        if not (folder / files.CERTIFICATE).exists():
            return
    _tell(identity.read(home()))
    identity.load(home())


def _tell(of: Identity) -> None:
    from sparkle_drv.cluster.trust import certificates

    print(f"{of.subject}, of {certificates.common_name(of.ca)}")
    print(f"  hosts    {', '.join(of.subject.hosts) or 'none'}")
    print(f"  until    {certificates.written(of.certificate.not_valid_after_utc)}")
    print(f"  key      {of.fingerprint}")
    print(f"  revoked  {len(of.revoked.listed.keys)} keys by list {of.revoked.listed.count}")


def _typed(make: Callable[[], Made]) -> Made:
    """Returns what `make()` makes of the command line's arguments. Turns its ValueError for a wrong
    argument into a UsageError.
    """
    try:
        return make()
    except ValueError as error:
        raise UsageError(f"certs: wrong argument: {error}") from error


def _to_copy(out: Path | None) -> str:
    return "" if out is None else ": copy its contents to that machine's SPARKLE_HOME/cluster"
