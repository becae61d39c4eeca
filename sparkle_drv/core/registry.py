"""Maps the scheme of a URI to its backend class, which is imported at first use.

Plug-ins register by entry point, test equipment by `register`. A slash before the first colon names
another machine: "box1/cuda:0" is the device cuda:0 of the host box1. The backend `REMOTE` opens it.
"""

from __future__ import annotations

import importlib
import logging
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sparkle_drv.backends import rates
from sparkle_drv.core import settings
from sparkle_drv.core.device import Device
from sparkle_drv.errors import DeviceNotFound
from sparkle_drv.types import DeviceInfo, Found

log = logging.getLogger("sparkle_drv")

ENTRY_POINTS = "sparkle_drv.backends"
ALIASES = {"nvidia": "cuda", "amd": "amdgpu"}
REMOTE = "remote"
"""The entry point of the backend for devices of other machines."""
_URI = re.compile(r"([a-z][a-z0-9_]*)(?::([\w.#/-]+(?::[a-z][\w.#/-]*)*))?\Z")
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z")

_builtin = ("cpu", "egl", "amdgpu", "cuda")
_registered: dict[str, Callable[[], Any]] = {}


def register(scheme: str, load: Callable[[], Any]) -> None:
    """Adds a scheme. At first use `load()` returns the scheme's backend class (backends/base.py).

    Raises ValueError if `scheme` is not a valid scheme or is built in.
    """
    if not _URI.match(scheme) or ":" in scheme:
        raise ValueError(f"scheme: expected lower-case letters and digits, got {scheme!r}")
    if scheme in _builtin:
        raise ValueError(f"scheme: expected one that is not built in, got {scheme!r}")
    _registered[scheme] = load


def unregister(scheme: str) -> None:
    """Removes a scheme that `register` added, if there is one; open devices stay open."""
    _registered.pop(scheme, None)


def _load_plugins() -> None:
    from importlib.metadata import entry_points

    for point in entry_points(group=ENTRY_POINTS):
        if point.name not in _registered and point.name not in _builtin:
            _registered[point.name] = point.load


def _backend(scheme: str) -> Any:
    scheme = REMOTE if "/" in scheme else scheme
    if scheme in _builtin:
        return importlib.import_module(f"sparkle_drv.backends.{scheme}").BACKEND
    if scheme not in _registered:
        _load_plugins()
    if scheme not in _registered:
        raise DeviceNotFound(
            f"there is no backend {scheme!r}; known: "
            f"{', '.join(sorted({*_builtin, *_registered} - {REMOTE}))}, "
            "and HOST/cpu of other machines"
        )
    try:
        return _registered[scheme]()
    except Exception as error:  # a plug-in's code may raise any exception
        raise DeviceNotFound(
            f"{scheme}: its plug-in does not load: {type(error).__name__}: {error}"
        ) from error


def parse(uri: str) -> tuple[str, str]:
    """Returns (scheme, rest) of a URI such as "cpu" or "emu:gfx1036#1", with aliases resolved.

    The scheme of another machine's device begins with the host: ("box1/cuda", "0"). Raises
    TypeError if `uri` is not text, ValueError if it is no valid URI.
    """
    if not isinstance(uri, str):
        raise TypeError(f"uri: expected text such as 'cpu' or 'cuda:0', got {uri!r}")
    host, slash, device = "", "", uri.strip()
    if "/" in device.partition(":")[0]:
        host, slash, device = device.partition("/")
        if not _HOST.match(host):
            raise ValueError(
                f"uri: {uri!r}: expected a host name of letters, digits, '.', '_' and '-' before "
                f"the slash, 63 at most, got {host!r}"
            )
    match = _URI.match(device)
    if not match:
        raise ValueError(
            f"uri: expected 'backend' or 'backend:which', with or without 'host/', got {uri!r}"
        )
    return host + slash + ALIASES.get(match[1], match[1]), match[2] or ""


def spellings(uri: str) -> tuple[str, ...]:
    """Returns the URIs that the device of `uri` may have, without aliases.

    The first device of a kind has two URIs: one with the number 0 and one without a number. For an
    invalid URI the tuple is empty.
    """
    try:
        scheme, rest = parse(uri)
    except ValueError:
        return ()
    return (f"{scheme}:{rest or 0}", scheme) if rest in ("", "0") else (f"{scheme}:{rest}",)


def open_device(uri: str, *, threads: int | None = None, deterministic: bool = False) -> Device:
    """Opens the device of a URI such as "cpu" or "cuda:0"; `devices` and `discover` list them.

    "box1/cuda:0" is a device of another machine, a node (docs/cluster.md). `devices` and `discover`
    do not list devices of nodes, because a connection to a node is opened only for a URI that names
    the node.

    "cpu" computes on all cores. "cpu:c0" and "cpu:c2-5" are devices on those cores alone: their
    threads run nowhere else. "cpu:node1" has the cores of NUMA node 1 that are in the affinity
    mask. A tail such as "/avx2" sets SPARKLE_CPU_ISA for this device. `threads` is at most the
    number of cores. Devices with disjoint cores share only memory bandwidth. If all cores of a
    device are on one NUMA node, allocations of 64 KiB or more are placed there while the node has
    room. Uploads and downloads on an idle queue are copies in the calling thread.

    `threads` (1 to 1024, including the calling thread) is for the cpu device and for plug-ins that
    take this option. If it is None, SPARKLE_THREADS gives the number. Without this variable, the
    affinity mask and the cgroups' quota give the number. The same input gives the same bits for the
    same number of threads. With `deterministic=True` it gives the same bits for any number of
    threads.

    Raises DeviceNotFound, with the reasons, if the device cannot be opened. Raises ValueError for
    an invalid URI, for `threads` out of range or on a device that does not take the option, and for
    an invalid SPARKLE_... variable. Raises TypeError for an argument of a wrong type.

    >>> with sp.open("cpu", threads=1) as one:
    ...     one.uri
    'cpu'
    >>> sp.open("cpu", threads=0)
    Traceback (most recent call last):
        ...
    ValueError: threads: expected 1 to 1024, got 0
    """
    return open_as(uri, threads, deterministic, "")


def open_as(uri: str, threads: int | None, deterministic: bool, isa: str) -> Device:
    """Does what `open_device` does, with another process's SPARKLE_CPU_ISA (@private).

    `isa` is the value of that variable; "" means this process's value.
    """
    scheme, rest = parse(uri)
    full = f"{scheme}:{rest}" if rest else scheme
    read, kind = settings.read(), _backend(scheme)
    known = settings.with_options(read, full, kind, threads, deterministic)
    if isa and isa not in settings.ISAS:
        raise ValueError(f"isa: expected one of {', '.join(settings.ISAS)}, got {isa!r}")
    known = replace(known, cpu_isa=isa or known.cpu_isa)
    backend = kind.open(full, known)
    return Device(backend.info.uri, backend, known.home, deterministic)


def discover() -> list[Found]:
    """Returns every device of every backend; an unusable device has the reason.

    Raises ValueError for an invalid SPARKLE_... variable.

    >>> [found.backend for found in sp.discover() if found.uri == "cpu"]
    ['cpu']
    """
    known = settings.read()
    _load_plugins()
    devices: list[Found] = []
    for scheme in [*_builtin, *sorted(_registered)]:
        try:
            devices += _backend(scheme).discover(known)
        except Exception as error:  # a plug-in that fails must not hide the other backends
            log.warning("backend %s failed to discover its devices", scheme, exc_info=True)
            reason = f"{type(error).__name__}: {error}"
            advice = "the backend itself failed: reinstall or remove it"
            devices.append(Found(scheme, scheme, reason=reason, advice=advice))
    return devices


def devices() -> list[DeviceInfo]:
    """Returns the usable devices, best first.

    Real devices come before emulated ones, hardware before software, GPUs before the CPU, more
    compute units before fewer. Raises the errors of `discover`.

    >>> [info.uri for info in sp.devices() if info.kind == "cpu"]
    ['cpu']
    """
    home = settings.read().home
    usable = [rates.known(found.info, home) for found in discover() if found.info is not None]
    return sorted(
        usable, key=lambda i: (i.emulated, i.software, i.kind != "gpu", -i.compute_units, i.uri)
    )
