"""A node on the network, made from files and addresses: its certificates, Zenoh, and the sessions
of a NodeServer.

`sparkle node` runs a Process. Tests run a NodeServer on the in-process transport instead.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from sparkle_drv.cluster.channel.channel import Channel
from sparkle_drv.cluster.channel.endpoint import Endpoint
from sparkle_drv.cluster.few_lines import FewLines
from sparkle_drv.cluster.node.quotas import Quotas
from sparkle_drv.cluster.node.server import NodeServer, usable
from sparkle_drv.cluster.refused import Refused
from sparkle_drv.cluster.transport.engine import Engine
from sparkle_drv.cluster.trust import authority, files, identity, renewal
from sparkle_drv.cluster.trust.handshake import Answerer
from sparkle_drv.cluster.trust.identity import Identity
from sparkle_drv.cluster.trust.keys import Keys

_Said = TypeVar("_Said")
SILENCE_S = 10.0
"""Seconds of silence after which a client is lost. The token of a dead client disappears sooner. A
live one on busy cores may be silent for 4 s."""


class Process:
    """A node on the network: a NodeServer, and the Engine that listens for its clients. The
    constructor raises Refused for a missing or bad certificate, DeviceNotFound for a device that
    cannot be used, ValueError for a wrong address, and OSError.
    """

    def __init__(
        self, home: str, devices: Sequence[str] | None, *, listen: Sequence[str],
        join: Sequence[str] = (), quotas: Quotas | None = None, trusted: Sequence[Path] = (),
        say: Callable[[str], None] = print,
    ) -> None:  # fmt: skip
        say = FewLines(say)
        self._say, self._home, self._said = say, home, ""
        self._identity = identity.load(home)
        keys = [identity.fingerprint_of(path) for path in trusted]
        self._has_ca = (self._identity.folder / files.CA_KEY).exists()
        epoch = int.from_bytes(os.urandom(8), "little") >> 1
        self._answerer = _Answers(self._identity, epoch, say)
        self.node = NodeServer(
            usable(devices), quotas=quotas, trusted=keys, say=say,
            renew=self._grant if self._has_ca else None, granted=self._granted,
        )  # fmt: skip
        self._engine = Engine(
            self._identity.name, self._identity.folder, listen, join, node=True, say=say,
            revoked=lambda der: self._identity.revoked.has_certificate(der),
        )  # fmt: skip
        self._endpoint = Endpoint(
            self._engine, answerer=self._answerer, accept=self.node.accept, silence_s=SILENCE_S
        )
        lends = ", ".join(self.node.devices)
        say(f"{self._identity.name}: lends {lends} at {', '.join(listen)}")
        for trouble in self._engine.trouble:
            say(f"{self._identity.name}: {trouble}")

    def run(self, stopped: Callable[[float], object]) -> None:
        """Runs until `stopped(timeout_s)` returns a true value, then ends every session. `stopped`
        waits at most `timeout_s` seconds for a reason to stop.
        """
        try:
            while not stopped(renewal.look_s(self._identity)):
                self._renew()
        finally:
            self.close()

    def close(self) -> None:
        self.node.close()
        self._endpoint.close()

    def _grant(self, channel: Channel, request: dict[str, Any]) -> dict[str, Any]:
        keys = channel.keys
        return renewal.renewal_grant(authority.load(self._home), request, keys.peer, keys.role)

    def _granted(self, grant: dict[str, Any]) -> None:
        try:
            renewal.renewal_take(self._identity, grant)  # the next `_renew` finds the new file
        except OSError as error:
            self._trouble(error)
            raise Refused(str(error)) from error

    def _trouble(self, error: Exception) -> None:
        """Reports a problem when it first appears, not again at each check."""
        line = f"{self._identity.name}: the certificate is not renewed: {error}"
        if line != self._said:
            self._said = line
            self._say(line)

    def _renew(self) -> None:
        """Renews the certificate if that is due. If the CA is on this machine, the CA makes the new
        certificate. Otherwise all clients are asked to send one. The certificate that a client
        sends is written to the files, where the next check finds it.
        """
        try:
            renewed = identity.read(self._home)
            if renewal.due(renewed):
                if self._has_ca:
                    renewed = renewal.renew(renewed)
                else:
                    self.node.ask_renewal(renewal.renewal_request(renewed))
            self.node.end_revoked(renewed.revoked.listed.keys)
            if renewed.der != self._identity.der:
                self._identity = renewed
                self._answerer.renewed(renewed)
                self._engine.renewed(renewed.folder)
                self._say(f"{renewed.name}: goes on with a new certificate")
        except (Refused, ValueError, OSError) as error:
            self._trouble(error)


class _Answers:
    """The node's end of handshakes, in which an Answerer (trust/handshake.py) checks clients.

    Refusals are logged. When the node's certificate is renewed, a new Answerer takes over.
    """

    def __init__(self, own: Identity, epoch: int, say: Callable[[str], None]) -> None:
        self._epoch, self._say = epoch, say
        self._now = Answerer(own, epoch)

    def renewed(self, own: Identity) -> None:
        self._now = Answerer(own, self._epoch)

    def welcome(self, hello: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        return self._log_refusal(self._now.welcome, hello)

    def admit(self, pending: Any, proof: dict[str, Any]) -> Keys:
        return self._log_refusal(self._now.admit, pending, proof)

    def _log_refusal(self, step: Callable[..., _Said], *args: Any) -> _Said:
        try:
            return step(*args)
        except Refused as error:
            self._say(f"refused: {error}")
            raise
