"""Lets the kernel decide which of two sockets on one port gets a new connection, by its address.

Zenoh neither takes over an accepted connection nor shares its port. But the options of its
listening socket may be changed from inside this process: with SO_REUSEPORT a second socket can
listen beside it. A classic BPF program, which needs no privilege, then picks the socket for each
connection request.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import stat
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

_SO_ATTACH_REUSEPORT_CBPF = 51  # asm-generic/socket.h
_ZENOH, _OTHER = 0, 1  # the sockets of a port, in the order in which they began to listen
_NETWORK = 0x1_0000_0000 - 0x10_0000  # SKF_NET_OFF of linux/filter.h: offsets from the IP header on
_LOAD_WORD, _LOAD_HALF, _LOAD_BYTE, _AND, _IF_EQUAL, _RETURN = 0x20, 0x28, 0x30, 0x54, 0x15, 0x06
_SOURCE = {4: 12, 6: 8}  # the offset of the source address, by the IP version
_HEADER = {4: 20, 6: 40}  # bytes of the IP header, if it has no options; the source port follows
_BACKLOG = 1024

Instruction = tuple[int, int, int, int]


class Peer(NamedTuple):
    """Where connections come from."""

    address: bytes
    """4 or 16 bytes."""
    port: int = 0
    """0: any port."""


def program(peers: Iterable[Peer]) -> list[Instruction]:
    """Returns a classic BPF program, which gives Zenoh the connections of these peers, and all
    others to the other socket.
    """
    instructions: list[Instruction] = []
    for address, port in peers:
        version = 4 if len(address) == 4 else 6
        tests: list[tuple[int, int, int]] = [
            (_LOAD_WORD, _SOURCE[version] + 4 * n, word)
            for n, word in enumerate(struct.unpack(f">{len(address) // 4}I", address))
        ]
        if port:
            tests.append((_LOAD_HALF, _HEADER[version], port))
        # A test that fails jumps behind this peer: over the tests that follow it, two instructions
        # each, and the return.
        over = 2 * len(tests) + 1
        instructions += [(_LOAD_BYTE, 0, 0, _NETWORK), (_AND, 0, 0, 0xF0)]
        instructions.append((_IF_EQUAL, 0, over, version << 4))
        for load, offset, value in tests:
            over -= 2
            instructions += [(load, 0, 0, _NETWORK + offset), (_IF_EQUAL, 0, over, value)]
        instructions.append((_RETURN, 0, 0, _ZENOH))
    return [*instructions, (_RETURN, 0, 0, _OTHER)]


def beside(port: int) -> list[socket.socket]:
    """Returns a socket beside each socket of this process that listens on the port. It gets all new
    connections, until `steer` says otherwise. Raises OSError if the system cannot do this.
    """
    sockets: list[socket.socket] = []
    try:
        for listening in _listening(port):
            with listening:
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                sockets.append(_joined(listening))
    except BaseException:
        for each in sockets:
            each.close()
        raise
    return sockets


def steer(other: socket.socket, peers: Iterable[Peer]) -> None:
    """Lets Zenoh get the new connections of these peers from now on, and `other` all others."""
    instructions = program(peers)
    code = b"".join(struct.pack("=HBBI", *each) for each in instructions)
    buffer = ctypes.create_string_buffer(code, len(code))
    filter_program = struct.pack("@HP", len(instructions), ctypes.addressof(buffer))
    other.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_REUSEPORT_CBPF, filter_program)


def packed(host: str) -> bytes:
    """Returns the bytes of a peer's numeric address, 4 bytes also for an IPv4 address in IPv6."""
    if ":" not in host:
        return socket.inet_pton(socket.AF_INET, host)
    address = socket.inet_pton(socket.AF_INET6, host.partition("%")[0])
    return address[12:] if address[:12] == bytes(10) + b"\xff\xff" else address


def _joined(listening: socket.socket) -> socket.socket:
    other = socket.socket(listening.family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
            other.setsockopt(socket.SOL_SOCKET, option, 1)
        if other.family == socket.AF_INET6:
            only = listening.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)
            other.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, only)
        other.bind(listening.getsockname())
        other.listen(_BACKLOG)
        steer(other, [])
    except BaseException:
        other.close()
        raise
    return other


def _listening(port: int) -> list[socket.socket]:
    """Returns duplicates of this process's sockets that listen on the port."""
    result = []
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # another thread has closed the descriptor
            if not stat.S_ISSOCK(os.stat(Path("/proc/self/fd", name)).st_mode):
                continue
            each = socket.socket(fileno=os.dup(int(name)))
            if _listens(each, port):
                result.append(each)
            else:
                each.close()
    return result


def _listens(each: socket.socket, port: int) -> bool:
    return (
        each.family in (socket.AF_INET, socket.AF_INET6)
        and each.type == socket.SOCK_STREAM
        and bool(each.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
        and each.getsockname()[1] == port
    )
