"""Checks a kernel that a caller passes to `Context.dispatch`, and its arguments, before anything is
submitted. dispatch.py launches the kernel.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from sparkle_drv import assets
from sparkle_drv.core.abi.elements import POINTERS, of_dtype
from sparkle_drv.core.abi.signature import Arg, parse_args
from sparkle_drv.core.array import is_masked
from sparkle_drv.core.device import Device
from sparkle_drv.core.kernel import Kernel, triple
from sparkle_drv.ops.memory import staging

from .operation import is_context_array

WORDS = ("count", "begin")
"""What a number argument can be in each piece: the piece's number of elements, or its first
element."""
_FIELDS = ("image", "entry", "args")


@dataclass(frozen=True)
class UserKernel:
    """A kernel that a caller passed: one of the manifest, or the caller's own images, one for each
    backend.
    """

    name: str
    """The name in the manifest, or the first entry point."""
    args: tuple[Arg, ...]
    images: Mapping[str, Mapping[str, Any]]
    """Arguments of `Device.kernel`, by backend. Empty for a kernel of the manifest."""
    digest: str
    """Hash of the images and of how they are loaded; "" for a kernel of the manifest."""

    def on(self, device: Device) -> Kernel | None:
        """Returns the kernel, loaded once per device, or None if there is no image. Raises as
        `Device.kernel` does.
        """
        if not self.images:
            return staging.kernel(device, self.name) if device.provides(self.name) else None
        image = self.images.get(device.info.backend)
        if image is None:
            return None
        found: Kernel = staging.kept(
            device, "user kernels", self.digest, staging.MOST_KEPT, lambda: device.kernel(**image)
        )
        return found


def kernel_of(kernel: Any) -> UserKernel:
    """Returns the kernel that a caller names.

    Raises TypeError if `kernel` is neither a name nor a mapping from backends to images. Raises
    ValueError for a name that is not in the manifest, and for args that differ between backends.
    Raises OSError if the file of an image does not exist.
    """
    if isinstance(kernel, str):
        entry = assets.entry(kernel)
        if entry is None:
            raise ValueError(f"kernel: expected a name of the manifest, got {kernel!r}")
        return UserKernel(kernel, tuple(Arg(**arg) for arg in entry["args"]), {}, "")
    if not isinstance(kernel, Mapping) or not kernel:
        raise TypeError(f"kernel: expected a name, or a mapping by backend, got {kernel!r}")
    digest, signatures = hashlib.sha256(), dict[str, tuple[Arg, ...]]()
    for backend, image in kernel.items():
        if not isinstance(image, Mapping) or any(field not in image for field in _FIELDS):
            raise TypeError(f"kernel: {backend}: expected image, entry and args, got {image!r}")
        signatures[backend] = parse_args(image["args"])
        code = image["image"]
        if isinstance(code, (str, os.PathLike)):
            at = os.stat(code)
            code = f"{os.fspath(code)}:{at.st_mtime_ns}:{at.st_size}".encode()
        options = sorted((key, value) for key, value in image.items() if key != "image")
        digest.update(repr((backend, options)).encode())
        digest.update(bytes(code))
    first = next(iter(signatures))
    for backend, args in signatures.items():
        if [arg.type for arg in args] != [arg.type for arg in signatures[first]]:
            told = f"{kernel[first]['args']!r} for {first} and {kernel[backend]['args']!r}"
            raise ValueError(
                f"kernel: expected the same args for all backends, got {told} for {backend}"
            )
    return UserKernel(
        str(kernel[first]["entry"]), signatures[first], dict(kernel), digest.hexdigest()[:12]
    )


@dataclass(frozen=True)
class Arguments:
    """The arguments of one call of a kernel."""

    args: tuple[Arg, ...]
    given: tuple[Any, ...]
    """All arguments in order: arrays and numbers; None for an optional array."""
    axes: Mapping[int, int]
    """The axis of each array that is cut, by the position of the array."""
    words: Mapping[int, str]
    """One of WORDS for each number that describes the piece, by the position of the number."""
    written: tuple[int, ...]
    """Positions of the arrays that the kernel writes."""
    extent: int
    """Elements along the cut; 0 if there is no cut."""

    @property
    def arrays(self) -> list[int]:
        """Positions of the arrays among the arguments."""
        return [at for at, x in enumerate(self.given) if x is not None and self.args[at].is_pointer]


def arguments(kernel: UserKernel, given: Any, cut: Any, out: Any) -> Arguments:
    """Returns the checked arguments of a call in the kernel's order. Raises TypeError or ValueError
    if `given`, `cut` or `out` does not fit the kernel.
    """
    args = kernel.args
    names = [arg.name for arg in args]
    if isinstance(given, Mapping):
        for name in (*given, *names):
            if name not in names or name not in given:
                got = ", ".join(map(str, given)) or "none"
                raise ValueError(f"args: expected the names {', '.join(names)}, got {got}")
        given = [given[name] for name in names]
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise TypeError(f"args: expected a list, or a mapping by name, got {given!r}")
    if len(given) != len(args):
        raise ValueError(f"args: expected {len(args)} ({', '.join(names)}), got {len(given)}")
    if not isinstance(cut, Mapping | None):
        raise TypeError(f"cut: expected a dict from arguments to axes, got {cut!r}")
    axes, words = dict[int, int](), dict[int, str]()
    for key, value in (cut or {}).items():
        at = _place("cut", key, names)
        if not args[at].is_pointer:
            words[at] = _word(args[at], value)
        elif isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"cut: expected an axis of {names[at]}, got {value!r}")
        else:
            axes[at] = value
    for at, (arg, x) in enumerate(zip(args, given, strict=True)):
        _check(arg, x, at in words)
    written = _written(kernel, out, names)
    extent = _extent(axes, names, given) if cut else 0
    for at, word in words.items():
        usual = extent if word == "count" else 0
        if given[at] is not None and given[at] != usual:
            raise ValueError(
                f"{names[at]}: expected {usual}, the {word} of the whole call, got {given[at]}"
            )
    for at in written:
        if cut and at not in axes:
            raise ValueError(f"cut: expected an axis of {names[at]}, which is written, got none")
        if isinstance(given[at], np.ndarray) and not given[at].flags.writeable:
            raise ValueError(f"{names[at]}: expected a writable array, got a read-only one")
    for first_at, other in combinations(written, 2):
        x, y = given[first_at], given[other]
        numpy = isinstance(x, np.ndarray) and isinstance(y, np.ndarray)
        if x is y or (numpy and np.may_share_memory(x, y)):
            raise ValueError(
                f"{names[first_at]}: expected memory apart from {names[other]}, got shared memory"
            )
    return Arguments(args, tuple(given), axes, words, written, extent)


def _place(what: str, key: Any, names: Sequence[str]) -> int:
    if isinstance(key, str) and key in names:
        return names.index(key)
    if isinstance(key, int) and not isinstance(key, bool) and 0 <= key < len(names):
        return key
    raise ValueError(f"{what}: expected one of {', '.join(names)} or its number, got {key!r}")


def _word(arg: Arg, value: Any) -> str:
    if arg.type[0] == "f" or value not in WORDS:
        raise ValueError(f"cut: expected 'count' or 'begin' for an integer argument, got "
                         f"{value!r} for {arg.type} {arg.name}")  # fmt: skip
    return str(value)


def _check(arg: Arg, x: Any, is_computed: bool) -> None:
    """Raises TypeError if `x` cannot be the argument `arg`. `is_computed` says that `arg` is a
    number whose value is computed for each piece; `x` may then be None.
    """
    kind = arg.type.rstrip("*")
    if not arg.is_pointer:
        wanted: Any = (int, np.integer) if kind[0] != "f" else (int, float, np.number)
        if isinstance(x, bool) or not (isinstance(x, wanted) or (is_computed and x is None)):
            raise TypeError(f"{arg.name}: expected a number for {kind}, got {x!r}")
    elif x is None and arg.optional:
        return
    elif not (isinstance(x, np.ndarray) or is_context_array(x)) or is_masked(x):
        got = type(x).__name__
        raise TypeError(f"{arg.name}: expected a numpy array or a ContextArray, got {got}")
    elif not of_dtype(x.dtype) & POINTERS[kind]:
        raise TypeError(f"{arg.name}: expected elements of {kind}, got {x.dtype}")


def _written(kernel: UserKernel, out: Any, names: Sequence[str]) -> tuple[int, ...]:
    if not kernel.images:
        if out is not None:
            raise ValueError(f"out: expected None for a kernel of the manifest, got {out!r}")
        written = tuple(at for at, a in enumerate(kernel.args) if a.is_pointer and "w" in a.access)
        if not written:
            raise ValueError(f"kernel: expected a kernel that writes an array, got {kernel.name}")
        return written
    several = out if isinstance(out, (list, tuple)) else () if out is None else (out,)
    written = tuple(dict.fromkeys(_place("out", key, names) for key in several))
    if not written or not all(kernel.args[at].is_pointer for at in written):
        raise ValueError(f"out: expected the arrays that the kernel writes, got {out!r}")
    return written


def _extent(axes: Mapping[int, int], names: Sequence[str], given: Sequence[Any]) -> int:
    extents = {}
    for at, axis in axes.items():
        ndim = 0 if given[at] is None else given[at].ndim
        if not 0 <= axis < ndim:
            of = f"from 0 to {ndim - 1}" if ndim else "which has no axes"
            raise ValueError(f"cut: expected an axis of {names[at]}, {of}, got {axis}")
        extents[names[at]] = given[at].shape[axis]
    if len(set(extents.values())) != 1 or 0 in extents.values():
        told = ", ".join(f"{n} of {name}" for name, n in extents.items()) or "no array"
        raise ValueError(f"cut: expected axes of one equal size above 0, got {told}")
    return int(next(iter(extents.values())))


def groups_of(groups: Any, extent: int) -> Callable[[int], Any]:
    """Returns a function that maps the number of elements of a piece to its number of workgroups.
    Raises TypeError or ValueError unless `groups` is None, a function, or up to three integers of
    at least 1.
    """
    if groups is None or callable(groups):
        return groups or (lambda count: None)
    x, y, z = triple("groups", groups)
    if min(x, y, z) < 1:
        raise ValueError(f"groups: expected 1 or more along each axis, got {groups!r}")
    return lambda count: (-(-x * count // extent) if extent else x, y, z)
