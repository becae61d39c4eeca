"""ConnectionGate: only an address that has proved a certificate reaches Zenoh's socket.

After each TLS handshake that fails or times out, Zenoh accepts nothing for 0.1 s, and no setting
changes that. 1,500 silent connections thus kept new clients out for more than a minute. So the gate
takes all connections first (steering.py). It does the TLS handshake and drops whoever does not
prove a certificate of our CA, or proves a revoked one.

The probe of a client (probe.py) proves its certificate here, and tells the port from which its
Zenoh will connect. The gate lets in this port of this address for OPEN_S. A Zenoh that connects
again by itself tells no port. The gate closes its link, and lets its address in for OPEN_S, so that
Zenoh's next try succeeds. So does that of a client whose port a router has changed.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import ssl
import struct
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from pathlib import Path

from sparkle_drv.cluster.transport import steering
from sparkle_drv.cluster.transport.config import FILES

GATE = "sparkle-gate/1"
"""The ALPN protocol (RFC 7301) by which a probe knows that it speaks to a gate."""
PORT = struct.Struct(">H")
"""What a probe sends: the port from which its Zenoh will connect, or 0 for any port. The gate
answers with a byte."""
LET_IN, REVOKED = b"+", b"-"
"""What the gate answers. It says REVOKED without waiting for a port."""
OPEN_S = 3.0
"""Seconds that a port or an address may connect to Zenoh after a proof; Zenoh tries once a
second."""
PROVE_S = 3.0
"""Seconds that a TLS handshake may take. The engine's limit is 5 s, for more round trips."""
LINGER_S = 1.0
"""Seconds after a proof in which the other end must send something or close."""
MOST_OPEN = 512
"""Connections at a time. One more drops the oldest silent one of the address that has most."""
CHECK_S = 0.25
"""Seconds between searches for connections whose time is over."""
MOST_LET_IN = 256
"""Peers that may connect to Zenoh at a time. One more replaces the oldest one."""
_HANDSHAKE, _ALERT = b"\x16", b"\x15\x03\x03\0\2\2\x0a"  # of TLS: RFC 8446, section 5.1 and 6
_TOGETHER = 64  # connections that are accepted before others are served


class _Guest:
    """A connection at the gate."""

    def __init__(self, link: socket.socket, address: bytes, until_s: float) -> None:
        self.link, self.address, self.until_s = link, address, until_s
        self.proven = self.refused = False


class ConnectionGate:
    """The gate before the sockets of this process that listen on some ports. `say(line)` gets a
    line for each connection that proves nothing, and one if the gate fails. Zenoh's socket then
    gets all connections. `revoked(der)` returns whether a certificate, encoded as DER, is revoked.

    Raises OSError if the system has no way to do this, and ssl.SSLError for wrong files in
    `folder`.
    """

    def __init__(
        self, ports: Iterable[int], folder: Path, say: Callable[[str], None],
        revoked: Callable[[bytes], bool],
    ) -> None:  # fmt: skip
        self._context, self._say, self._revoked = _context(folder), say, revoked
        self._guests: dict[socket.socket, _Guest] = {}
        self._by_address: dict[bytes, OrderedDict[_Guest, None]] = {}
        """All guests; of each address, those first that have sent nothing."""
        self._checked_s = 0.0
        self._until_s: OrderedDict[steering.Peer, float] = OrderedDict()
        self._selector = selectors.DefaultSelector()
        self._woken, self._wakes = socket.socketpair()
        self._doors: list[socket.socket] = []
        try:
            for port in sorted(set(ports)):
                self._doors += steering.beside(port)
            for door in (*self._doors, self._woken):
                self._selector.register(door, selectors.EVENT_READ)
        except BaseException:
            self._release()
            raise
        self._thread = threading.Thread(target=self._run, name="sparkle-gate", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the gate: Zenoh's socket then gets all connections."""
        with contextlib.suppress(OSError):  # its thread has failed
            self._wakes.send(b"x")
        self._thread.join(5)

    def _run(self) -> None:
        try:
            while True:
                for key, _ in self._selector.select(self._wait_s()):
                    if key.fileobj is self._woken:
                        return
                    link = key.fileobj
                    assert isinstance(link, socket.socket)
                    guest = self._guests.get(link)
                    if guest is not None:
                        self._serve(guest)
                    elif link in self._doors:
                        self._accept(link)
                self._expire()
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            self._say(f"gate: it has failed, so strangers may keep new clients out: {why}")
        finally:
            self._release()

    def _release(self) -> None:
        for each in (*self._guests, *self._doors, self._woken, self._wakes):
            each.close()
        self._guests.clear()
        self._selector.close()

    def _wait_s(self) -> float | None:
        return CHECK_S if self._guests or self._until_s else None

    def _accept(self, door: socket.socket) -> None:
        for _ in range(_TOGETHER):
            try:
                link, peer = door.accept()
            except BlockingIOError:
                return
            except OSError:  # too many open files
                if self._guests:
                    self._drop_one("there are too many open files")
                else:
                    time.sleep(CHECK_S)
                return
            link.setblocking(False)
            guest = _Guest(link, steering.packed(peer[0]), time.monotonic() + PROVE_S)
            self._guests[link] = guest
            self._by_address.setdefault(guest.address, OrderedDict())[guest] = None
            self._selector.register(link, selectors.EVENT_READ)
            if len(self._guests) > MOST_OPEN:
                self._drop_one(f"there are more than {MOST_OPEN} connections")

    def _drop_one(self, why: str) -> None:
        most = max(self._by_address.values(), key=len)
        oldest = next(iter(most))
        self._say(f"refused: a link: {why}")
        self._drop(oldest)

    def _serve(self, guest: _Guest) -> None:
        try:
            if guest.proven:
                self._hear(guest)
                return
            if guest.refused:
                if not guest.link.recv(1 << 16):
                    self._drop(guest)
                return
            if not isinstance(guest.link, ssl.SSLSocket):
                first = guest.link.recv(1, socket.MSG_PEEK)
                if first != _HANDSHAKE:
                    guest.link.recv(1 << 16)  # a close with unread bytes would take the alert away
                    guest.link.send(_ALERT if first else b"")
                    self._refuse(guest, "it does not speak TLS" if first else "it said nothing")
                    return
                self._wrap(guest)
            assert isinstance(guest.link, ssl.SSLSocket)
            guest.link.do_handshake()
        except ssl.SSLWantReadError:
            self._selector.modify(guest.link, selectors.EVENT_READ)
        except ssl.SSLWantWriteError:
            self._selector.modify(guest.link, selectors.EVENT_WRITE)
        except ssl.SSLCertVerificationError as error:
            self._refuse(guest, f"invalid peer certificate: {error.verify_message}")
        except ssl.SSLError as error:
            self._refuse(guest, (error.reason or str(error)).replace("_", " ").lower())
        except OSError as error:
            self._refuse(guest, error.strerror or str(error))
        else:
            certificate = guest.link.getpeercert(binary_form=True)
            if certificate is None or self._revoked(certificate):
                with contextlib.suppress(OSError):
                    guest.link.send(REVOKED)
                self._refuse(guest, "the certificate is revoked")
                return
            guest.proven, guest.until_s = True, time.monotonic() + LINGER_S
            self._selector.modify(guest.link, selectors.EVENT_READ)
            self._serve(guest)  # what came together with the handshake's end makes no event

    def _hear(self, guest: _Guest) -> None:
        """Reads what follows a proof: a port, the first message of a Zenoh, or the end."""
        try:
            received = guest.link.recv(PORT.size + 1)
        except ssl.SSLWantReadError:
            return
        except OSError:  # an end without TLS's farewell
            received = b""
        if len(received) == PORT.size:
            self._let_in(steering.Peer(guest.address, *PORT.unpack(received)))
            with contextlib.suppress(OSError):
                guest.link.send(LET_IN)
        else:
            self._let_in(steering.Peer(guest.address))
        self._drop(guest)

    def _wrap(self, guest: _Guest) -> None:
        """Begins TLS, once the other end has sent something: until then a guest costs little."""
        plain = guest.link
        self._by_address[guest.address].move_to_end(guest)  # silent ones are dropped first
        self._selector.unregister(plain)
        del self._guests[plain]
        guest.link = self._context.wrap_socket(
            plain, server_side=True, do_handshake_on_connect=False
        )
        self._guests[guest.link] = guest
        self._selector.register(guest.link, selectors.EVENT_READ)

    def _let_in(self, peer: steering.Peer) -> None:
        fresh = peer not in self._until_s
        self._until_s.pop(peer, None)
        while len(self._until_s) >= MOST_LET_IN:
            self._until_s.popitem(last=False)
        self._until_s[peer] = time.monotonic() + OPEN_S
        if fresh:
            self._steer()

    def _steer(self) -> None:
        for door in self._doors:
            steering.steer(door, self._until_s)

    def _expire(self) -> None:
        now = time.monotonic()
        if now - self._checked_s < CHECK_S:
            return
        self._checked_s = now
        for guest in [guest for guest in self._guests.values() if guest.until_s <= now]:
            if guest.proven or guest.refused:
                self._drop(guest)
                if guest.proven:
                    self._let_in(steering.Peer(guest.address))
            else:
                self._refuse(guest, f"no TLS handshake within {PROVE_S:g} s")
        over = [peer for peer, until_s in self._until_s.items() if until_s <= now]
        for peer in over:
            del self._until_s[peer]
        if over:
            self._steer()

    def _refuse(self, guest: _Guest, why: str) -> None:
        """Says why a guest proves nothing, and ends the connection. A guest that speaks TLS may
        first read the alert: a close with unread bytes would take it away.
        """
        if not guest.refused:
            self._say(f"refused: a link: {why}")
        if not isinstance(guest.link, ssl.SSLSocket):
            self._drop(guest)
            return
        guest.refused, guest.until_s = True, time.monotonic() + LINGER_S
        tls = guest.link
        self._selector.unregister(tls)
        del self._guests[tls]
        guest.link = socket.socket(fileno=tls.detach())
        guest.link.setblocking(False)
        with contextlib.suppress(OSError):
            guest.link.shutdown(socket.SHUT_WR)
        self._guests[guest.link] = guest
        self._selector.register(guest.link, selectors.EVENT_READ)

    def _drop(self, guest: _Guest) -> None:
        if self._guests.pop(guest.link, None) is not None:
            self._selector.unregister(guest.link)
            alike = self._by_address[guest.address]
            del alike[guest]
            if not alike:
                del self._by_address[guest.address]
        with contextlib.suppress(OSError):
            guest.link.shutdown(socket.SHUT_WR)
        guest.link.close()


def _context(folder: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    ca, certificate, key = (folder / name for name in FILES)
    context.load_verify_locations(ca)
    context.load_cert_chain(certificate, key)
    context.set_alpn_protocols([GATE])
    return context
