"""Checks what callers give a Mesh, before anything is changed: ValueError and TypeError that name
the argument.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from sparkle_drv.core import registry
from sparkle_drv.core.array import Array
from sparkle_drv.core.device import Device

from .lanes.carry import EXPRESSIONS

OPS = (*EXPRESSIONS, "mean")
DTYPES = ("float32", "float64", "int32")
"""Of what is reduced."""


class Mesh(Protocol):
    """What is read of one."""

    devices: dict[str, Device]


def check_array(mesh: Mesh, name: str, array: Any, written: bool = False) -> None:
    """An open Array on a device of the mesh, writable if it is `written`."""
    if not isinstance(array, Array):
        raise TypeError(f"{name}: expected an Array, got {type(array).__name__}")
    if array.closed:
        raise ValueError(f"{name}: expected an open Array, got a closed one")
    if mesh.devices.get(array.device.uri) is not array.device:
        raise ValueError(f"{name}: expected an Array of {mesh!r}, got one of {array.device}")
    if written and array.buffer.readonly:
        raise ValueError(f"{name}: expected a writable Array, got a read-only one")


def one_each(mesh: Mesh, name: str, arrays: Any, written: bool = False) -> dict[str, Array]:
    """An Array of one dtype on each device, by URI in the order of the mesh."""
    if not isinstance(arrays, (list, tuple)):
        raise TypeError(f"{name}: expected a list of Arrays, got {type(arrays).__name__}")
    if len(arrays) != len(mesh.devices):
        raise ValueError(f"{name}: expected {len(mesh.devices)}, got {len(arrays)}")
    found: dict[str, Array] = {}
    for at, array in enumerate(arrays):
        check_array(mesh, f"{name}[{at}]", array, written)
        uri = array.device.uri
        if uri in found:
            raise ValueError(f"{name}[{at}]: expected one for each of {mesh!r}, got {uri} again")
        if array.dtype != arrays[0].dtype:
            raise ValueError(f"{name}[{at}]: expected {_shown(arrays[0])}, got {_shown(array)}")
        found[uri] = array
    return {uri: found[uri] for uri in mesh.devices}


def alike(mesh: Mesh, name: str, arrays: Any, written: bool = True) -> dict[str, Array]:
    """As `one_each`, all of one shape."""
    found = one_each(mesh, name, arrays, written)
    for at, array in enumerate(arrays):
        if array.shape != arrays[0].shape:
            raise ValueError(f"{name}[{at}]: expected {_shown(arrays[0])}, got {_shown(array)}")
    return found


def parts(
    name: str, cut: Mapping[str, Array], whole_name: str, whole: Array
) -> list[tuple[int, int]]:
    """(begin, bytes) of the arrays `cut`, which are `whole` one behind the other along axis 0."""
    found, rows, at = [], 0, 0
    for uri, part in cut.items():
        if not whole.shape or part.dtype != whole.dtype or part.shape[1:] != whole.shape[1:]:
            raise ValueError(
                f"{name}: expected parts of {whole_name}, {_shown(whole)}, along axis 0, "
                f"got {_shown(part)} on {uri}"
            )
        if not part.shape:
            raise ValueError(f"{name}: expected at least one dimension, got none on {uri}")
        rows += part.shape[0]
        found.append((at, part.nbytes))
        at += part.nbytes
    if rows != whole.shape[0]:
        raise ValueError(f"{name}: expected {whole.shape[0]} rows of {whole_name}, got {rows}")
    return found


def root(mesh: Mesh, arrays: Mapping[str, Array], given: Any) -> str:
    """The URI of the root of a broadcast."""
    names = (given, *registry.spellings(given)) if isinstance(given, str) else ()
    for uri, array in arrays.items():
        if given is array or uri in names:
            return uri
    if not isinstance(given, (str, Array)):
        raise TypeError(f"root: expected a URI or an Array, got {type(given).__name__}")
    raise ValueError(f"root: expected a device of {mesh!r} or one of the arrays, got {given!r}")


def check_op(op: Any, dtype: np.dtype[Any]) -> None:
    """A reduction that elements of `dtype` have."""
    if op not in OPS:
        raise ValueError(f"op: expected one of {', '.join(OPS)}, got {op!r}")
    if dtype.name not in DTYPES:
        raise TypeError(f"arrays: expected {', '.join(DTYPES[:-1])} or {DTYPES[-1]}, got {dtype}")
    if op == "mean" and dtype.kind != "f":
        raise TypeError(f"op: expected an array of floats for 'mean', got {dtype}")


def check_apart(arrays: Mapping[str, Array], outs: Mapping[str, Array]) -> None:
    """No output is one of the inputs."""
    for uri, out in outs.items():
        if out is arrays[uri] or out.buffer is arrays[uri].buffer:
            raise ValueError(f"outs: expected other memory than that of arrays, got it on {uri}")


def _shown(array: Array) -> str:
    return f"{array.dtype}{list(array.shape)}"
