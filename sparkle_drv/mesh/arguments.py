"""Checks the arguments of a Mesh before anything is changed. The ValueErrors and TypeErrors name
the argument.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import combinations
from typing import Any, Protocol, runtime_checkable

import numpy as np

from sparkle_drv.core import registry
from sparkle_drv.core.array import Array
from sparkle_drv.core.device import Device
from sparkle_drv.ops.arguments import check
from sparkle_drv.ops.memory import staging

from .lanes.array_runner import EXPRESSIONS

OPS = (*EXPRESSIONS, "mean")
MOST_NBYTES = 2**63 - 1


class HasDevices(Protocol):
    """The part of a Mesh that this module reads."""

    devices: dict[str, Device]


@runtime_checkable
class Anywhere(Protocol):
    """An array that may have copies on several devices: a ContextArray of sched/run/arrays.py."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    layout: str | None

    @property
    def closed(self) -> bool:
        """Whether the array was closed."""

    @property
    def places(self) -> tuple[str, ...]:
        """URIs of devices with a valid copy, the last written first."""

    def writable(self, device: str) -> Array:
        """Returns the copy on a device, for a caller that then calls `wrote`. The array is moved
        there first if necessary.

        Raises ValueError if the array is closed, or if its Context has no such device.
        """

    def wrote(self, device: str) -> None:
        """Records that the copy on `device` has changed: drops the array's copies on all other
        devices.
        """


Given = Array | Anywhere
"""An array that collectives take."""


class Taken(dict[str, Array]):
    """The Arrays of a collective, by URI. `owners` maps URIs to those arguments that are arrays of
    a Context.
    """

    def __init__(self, mesh: HasDevices, where: Mapping[str, tuple[str, Given]]) -> None:
        """Builds the dict from `where`, which maps URIs to (name of the argument, the array
        given).
        """
        super().__init__()
        self.owners = {uri: x for uri, (_, x) in where.items() if not isinstance(x, Array)}
        for uri, (name, x) in where.items():
            try:
                self[uri] = x if isinstance(x, Array) else x.writable(uri)
            except ValueError as error:
                raise ValueError(f"{name}: cannot use this ContextArray: {error}") from error
            check_array(mesh, name, self[uri])

    def wrote(self) -> None:
        """Records that a collective has written these arrays. Drops copies on other devices, which
        are old now.
        """
        for uri, owner in self.owners.items():
            owner.wrote(uri)


def check_array(mesh: HasDevices, name: str, array: Any, written: bool = False) -> None:
    """Raises TypeError if `array` is no Array. Raises ValueError if it is closed, on no device of
    the mesh, or read-only though `written` is set.
    """
    if not isinstance(array, Array):
        raise TypeError(f"{name}: expected an Array, got {type(array).__name__}")
    if array.closed:
        raise ValueError(f"{name}: expected an open Array, got a closed one")
    if mesh.devices.get(array.device.uri) is not array.device:
        apart = ", which was opened separately" if array.device.uri in mesh.devices else ""
        raise ValueError(
            f"{name}: expected an Array of {mesh!r}, got an Array of {array.device}{apart}"
        )
    if written and array.buffer.readonly:
        raise ValueError(f"{name}: expected a writable Array, got a read-only one")


def check_like(name: str, array: Given, other: Given, shape: bool = True) -> None:
    """Raises ValueError unless `array` has the dtype and layout of `other` and, if `shape` is set,
    its shape.
    """
    same = array.dtype == other.dtype and array.layout == other.layout
    if not same or (shape and array.shape != other.shape):
        raise ValueError(f"{name}: expected {_shown(other)}, got {_shown(array)}")


def reduced(name: str, dtype: Any) -> np.dtype[Any]:
    """Returns `dtype` as numpy's dtype. Raises TypeError if collectives cannot add arrays of it."""
    names = [str(known) for known in check.DTYPES]
    converted: np.dtype[Any] | None = None
    with suppress(TypeError):
        converted = np.dtype(dtype)
    if converted is None or converted not in check.DTYPES:
        raise TypeError(f"{name}: expected {', '.join(names[:-1])} or {names[-1]}, got {dtype}")
    return converted


def _place(mesh: HasDevices, name: str, x: Any, written: bool, usual: str) -> str:
    """Returns the URI on which a collective uses an array: the array's own device, or `usual` for
    an array of a Context.
    """
    if not isinstance(x, Array) and isinstance(x, Anywhere):
        if x.closed:
            raise ValueError(f"{name}: expected an open {type(x).__name__}, got a closed one")
        return usual
    check_array(mesh, name, x, written)
    return str(x.device.uri)


def single_array(mesh: HasDevices, name: str, x: Any, written: bool = False) -> Taken:
    """Checks an array on any device of the mesh. Returns a Taken, which has the array under the URI
    of the device on which the collective uses it.

    An array of a Context may have several copies. The collective uses one on a device of the mesh.
    If there is none, the array is moved to the mesh's first device.
    """
    places = x.places if not isinstance(x, Array) and isinstance(x, Anywhere) else ()
    usual = next((uri for uri in places if uri in mesh.devices), next(iter(mesh.devices)))
    return Taken(mesh, {_place(mesh, name, x, written, usual): (name, x)})


def one_each(
    mesh: HasDevices, name: str, arrays: Any, written: bool = False, alike: bool = False
) -> Taken:
    """Checks a list with an array for each device. Returns the arrays by URI, in the order of the
    mesh. Raises ValueError unless all have one dtype and layout and, with `alike`, one shape.

    The i-th array, if it belongs to a Context, is used on the i-th device of the mesh.
    """
    if not isinstance(arrays, (list, tuple)):
        raise TypeError(f"{name}: expected a list of Arrays, got {type(arrays).__name__}")
    if len(arrays) != len(mesh.devices):
        raise ValueError(f"{name}: expected {len(mesh.devices)} Arrays, got {len(arrays)}")
    named: dict[str, tuple[str, Given]] = {}
    for at, (array, usual) in enumerate(zip(arrays, mesh.devices, strict=True)):
        uri = _place(mesh, f"{name}[{at}]", array, written, usual)
        if uri in named:
            raise ValueError(
                f"{name}[{at}]: expected one Array on each device of {mesh!r}, got a "
                f"second on {uri}"
            )
        if written and any(array is before for _, before in named.values()):
            raise ValueError(f"{name}[{at}]: expected a different array, got {array!r} again")
        check_like(f"{name}[{at}]", array, arrays[0], shape=alike)
        named[uri] = f"{name}[{at}]", array
    taken = Taken(mesh, {uri: named[uri] for uri in mesh.devices})
    for (uri, x), (other, y) in combinations(taken.items() if written else (), 2):
        if _meet(x, y):
            raise ValueError(
                f"{name}: expected arrays with separate memory, got shared memory on {uri}, {other}"
            )
    return taken


def alike(mesh: HasDevices, name: str, arrays: Any, written: bool = True) -> Taken:
    """Returns the array of each device, as `one_each` does; all must have one shape."""
    return one_each(mesh, name, arrays, written, alike=True)


def parts(
    name: str, cut: Mapping[str, Array], whole_name: str, whole: Array
) -> list[tuple[int, int]]:
    """Returns (offset, bytes) in `whole` of each array of `cut`. The arrays are parts of `whole`
    along axis 0, in order. Raises ValueError if they do not add up to `whole`.
    """
    spans, rows, at = [], 0, 0
    for uri, part in cut.items():
        like = part.dtype == whole.dtype and part.layout == whole.layout
        if not whole.shape or not like or part.shape[1:] != whole.shape[1:]:
            raise ValueError(
                f"{name}: expected parts of {whole_name}, {_shown(whole)}, along axis 0, "
                f"got {_shown(part)} on {uri}"
            )
        if not part.shape:
            raise ValueError(f"{name}: expected at least one dimension, got none on {uri}")
        rows += part.shape[0]
        spans.append((at, part.nbytes))
        at += part.nbytes
    if rows != whole.shape[0]:
        raise ValueError(
            f"{name}: expected {whole.shape[0]} rows in all to match {whole_name}, got {rows}"
        )
    return spans


def known(mesh: HasDevices, name: str, spelling: Any) -> str:
    """Returns the URI of the mesh's device for which `spelling` is a URI or an alias.

    Raises TypeError if `spelling` is not text, ValueError if the mesh has no such device.
    """
    if not isinstance(spelling, str):
        raise TypeError(f"{name}: expected a URI, got {type(spelling).__name__}")
    for uri in (spelling, *registry.spellings(spelling)):
        if uri in mesh.devices:
            return uri
    raise ValueError(f"{name}: expected one of {', '.join(mesh.devices)}, got {spelling}")


def root(mesh: HasDevices, arrays: Taken, source: Any) -> str:
    """Returns the URI of the root of a broadcast: the device whose array goes to all others.
    `source` is that URI or that array.

    Raises TypeError unless `source` is a URI or an array. Raises ValueError if the URI names no
    device of the mesh, or the array is not one of `arrays`.
    """
    if isinstance(source, str):
        return known(mesh, "root", source)
    for uri, array in arrays.items():
        if source is arrays.owners.get(uri, array):
            return uri
    if not isinstance(source, (Array, Anywhere)):
        raise TypeError(f"root: expected a URI or an Array, got {type(source).__name__}")
    raise ValueError(f"root: expected a device of {mesh!r} or one of the arrays, got {source!r}")


def nbytes(number: Any, itemsize: int = 1) -> int:
    """Returns `number`, a number of bytes.

    Raises TypeError unless it is a whole number. Raises ValueError if it is out of range or not a
    multiple of `itemsize`.
    """
    size = check.whole("nbytes", number, 0, MOST_NBYTES)
    if size % itemsize:
        raise ValueError(f"nbytes: expected a multiple of {itemsize}, got {size}")
    return size


def check_op(op: Any, arrays: Iterable[Array]) -> None:
    """Raises ValueError if `op` is no reduction. Raises TypeError if the device of an array cannot
    compute `op` for the array's dtype.
    """
    if op not in OPS:
        raise ValueError(f"op: expected one of {', '.join(OPS)}, got {op!r}")
    tags = list(check.DTYPES.values())
    for array in arrays:
        tag = check.DTYPES[reduced("arrays", array.dtype)]
        staging.check_there(array.device, "arrays", tag, tags)
        if op == "mean" and array.dtype.kind != "f":
            raise TypeError(f"op: expected an array of floats for 'mean', got {array.dtype}")


def check_apart(name: str, read: Taken, written: Taken) -> None:
    """Raises ValueError if a written array (argument `name`) shares memory with an array of
    `read`.
    """
    for uri, owner in written.owners.items():
        if any(owner is array for array in read.owners.values()):
            raise ValueError(
                f"{name}: expected arrays that are not read by this call, "
                f"got one on {uri} that is read"
            )
    for uri, out in written.items():
        if any(_meet(out, x) for x in read.values()):
            raise ValueError(
                f"{name}: expected memory that is not read by this call, got memory on {uri} "
                "that is read"
            )


def _meet(first: Array, second: Array) -> bool:
    """Returns whether two arrays share a byte. Devices that compute on the host's memory share
    addresses.
    """
    same = first.device is second.device or (
        first.device.info.unified and second.device.info.unified
    )
    begin, other_begin = first.buffer._address, second.buffer._address
    return same and begin < other_begin + second.nbytes and other_begin < begin + first.nbytes


def _shown(array: Given) -> str:
    layout = f" {array.layout}" if array.layout else ""
    return f"{array.dtype}{list(array.shape)}{layout}"
