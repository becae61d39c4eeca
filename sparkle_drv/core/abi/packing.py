"""Writes the packing function of a signature, the way dataclasses writes an __init__.

A loop over arguments of unknown kinds costs several times the launch itself; straight-line code for
one signature does not. The text is made of argument positions only, nothing a caller wrote gets
into it. For saxpy_f32 (y, x, a, n) it is

    def pack(device, head, args):
        a0, a1, a2, a3 = args
        if (
            a0._storage.device is not device
            or a0._elements != 2 and not 0 < a0._elements & 130 < 128
            or a1._storage.device is not device or a1._elements != 2 and not a1._elements & 2
        ):
            raise ValueError
        return struct_pack(head, a0._address, a1._address, a2, a3, a0.nbytes, a1.nbytes)

An array of just the wanted elements passes at the first comparison, which costs a tenth of an `&`.
Anything out of the ordinary ends in an exception; core/launch_errors.py finds the reason. Scalars
are plain numbers by then (core/plain_numbers.py): struct would hide what a `__float__` raises.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from sparkle_drv.core.abi.elements import READONLY


def packer(
    elements: Sequence[int],
    written: Sequence[bool],
    optional: Sequence[bool],
    layout: struct.Struct,
) -> Callable[[Any, bytes, Sequence[Any]], bytes]:
    """A function (device, head, args) -> a record: its head, packed arguments, covered bytes.

    Position by position; `elements` has the bits (elements.py) that a pointer takes, or 0.
    """
    names = [f"a{i}" for i in range(len(elements))]
    tests, values, covered = [], [], []
    for name, bits, is_written, is_optional in zip(names, elements, written, optional, strict=True):
        if not bits:
            values.append(name)
            continue
        test = f"{name}._storage.device is not device or {name}._elements != {bits} and "
        if is_written:  # some of these bits, and not the one of read-only memory
            test += f"not 0 < {name}._elements & {bits | READONLY} < {READONLY}"
        else:
            test += f"not {name}._elements & {bits}"
        tests.append(f"{name} is not None and ({test})" if is_optional else test)
        none = f"0 if {name} is None else " if is_optional else ""
        values.append(f"{none}{name}._address")
        covered.append(f"{none}{name}.nbytes")
    body = [f"    {''.join(n + ', ' for n in names) or '()'} = args"]
    if tests:
        body += [f"    if {' or '.join(tests)}:", "        raise ValueError"]
    body.append(f"    return struct_pack({', '.join(['head', *values, *covered])})")
    scope: dict[str, Any] = {"struct_pack": layout.pack}
    exec("\n".join(["def pack(device, head, args):", *body]), scope)
    made: Callable[[Any, bytes, Sequence[Any]], bytes] = scope["pack"]
    return made
