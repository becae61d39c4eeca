"""URI scheme -> backend class, imported when first asked for.

Plug-ins come by entry point, test equipment by `register`. A slash before the first colon names
another machine: "box1/cuda:0" is the device cuda:0 of the host box1, by the backend `REMOTE`.
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
    """Make `scheme:` known; `load()` returns the backend class (backends/base.py) when needed.

    Raises ValueError for what is no scheme, or built in.
    """
    if not _URI.match(scheme) or ":" in scheme:
        raise ValueError(f"scheme: lower-case letters and digits are wanted, got {scheme!r}")
    if scheme in _builtin:
        raise ValueError(f"scheme: {scheme!r} is built in")
    _registered[scheme] = load


def unregister(scheme: str) -> None:
    """Undo `register`, if there was one; devices that are open stay open."""
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
            f"no backend is called {scheme!r}; there are "
            f"{', '.join(sorted({*_builtin, *_registered} - {REMOTE}))}, "
            f"and HOST/cpu of other machines"
        )
    try:
        return _registered[scheme]()
    except Exception as error:  # a boundary to others' code: it may raise anything
        raise DeviceNotFound(
            f"{scheme}: its plug-in does not load: {type(error).__name__}: {error}"
        ) from error


def parse(uri: str) -> tuple[str, str]:
    """(scheme, rest) of "cpu", "emu:gfx1036#1"; aliases resolved; TypeError, ValueError.

    The scheme of another machine's device has its host in front: ("box1/cuda", "0").
    """
    if not isinstance(uri, str):
        raise TypeError(f"uri: text such as 'cpu' or 'cuda:0' is wanted, got {uri!r}")
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
            f"uri: {uri!r} is not of the form 'backend' or 'backend:which', or 'host/' before it"
        )
    return host + slash + ALIASES.get(match[1], match[1]), match[2] or ""


def spellings(uri: str) -> tuple[str, ...]:
    """URIs that the device of `uri` may have: without aliases, and the first of its kind with its
    number and without. None for a text that is no URI.
    """
    try:
        scheme, rest = parse(uri)
    except ValueError:
        return ()
    return (f"{scheme}:{rest or 0}", scheme) if rest in ("", "0") else (f"{scheme}:{rest}",)


def open_device(uri: str, *, threads: int | None = None, deterministic: bool = False) -> Device:
    """Open the device of a URI: "cpu", "cuda:0"; `devices` and `discover` list them.

    "box1/cuda:0" is the device of another machine, a node (docs/cluster.md). Neither of the two
    lists those: no connection is opened before somebody names one.

    "cpu" computes on all cores. "cpu:c0", "cpu:c2-5" and "cpu:node1" (the cores of a NUMA node that
    the affinity mask has) are devices on those cores alone: their threads run nowhere else. A tail
    such as "/avx2" is SPARKLE_CPU_ISA for this device. `threads` is at most the number of cores.
    Devices with disjoint cores are independent, but for memory bandwidth. Memory of cores on one
    NUMA node, from 64 KiB on, is put there while the node has room. Uploads and downloads on
    an idle queue are copies in the caller.

    `threads` (1 to 1024, the caller's among them) is for the cpu device and for plug-ins that take
    it. None leaves the number to SPARKLE_THREADS, and without that to the affinity mask and the
    cgroups' quota. The same input gives the same bits for the same number of threads; with
    `deterministic` for any.

    Raises DeviceNotFound with what was tried; ValueError for a text that is no URI, for `threads`
    out of range or on a device that does not take it, and for a SPARKLE_... variable that makes no
    sense; TypeError for an argument of another type.
    """
    return open_as(uri, threads, deterministic, "")


def open_as(uri: str, threads: int | None, deterministic: bool, isa: str) -> Device:
    """The same; `isa` is another process's SPARKLE_CPU_ISA, "": this one's (@private)."""
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
    """Every node of every backend, usable or not, with the reason why not.

    Raises ValueError for a SPARKLE_... variable that makes no sense.
    """
    known = settings.read()
    _load_plugins()
    found: list[Found] = []
    for scheme in [*_builtin, *sorted(_registered)]:
        try:
            found += _backend(scheme).discover(known)
        except Exception as error:  # others' code: one bad plug-in must not hide the rest
            log.warning("backend %s failed to discover its devices", scheme, exc_info=True)
            reason = f"{type(error).__name__}: {error}"
            advice = "the backend itself failed: reinstall or remove it"
            found.append(Found(scheme, scheme, reason=reason, advice=advice))
    return found


def devices() -> list[DeviceInfo]:
    """Usable devices, best first.

    Real before emulated, hardware before software, GPUs before the CPU, then by compute units.
    Raises as `discover`.
    """
    home = settings.read().home
    usable = [rates.known(found.info, home) for found in discover() if found.info is not None]
    return sorted(
        usable, key=lambda i: (i.emulated, i.software, i.kind != "gpu", -i.compute_units, i.uri)
    )
