"""Writes the packing function of a signature, the way dataclasses writes an __init__.

A loop over arguments of unknown kinds costs several times the launch itself; straight-line code for
one signature does not. The text is made of argument positions only, nothing a caller wrote gets
into it. For saxpy_f32 (y, x, a, n) it is

    def pack(device, head, args):
        a0, a1, a2, a3 = args
        if (
            a0._storage.device is not device or not a0._elements & 2 or a0._readonly
            or a1._storage.device is not device or not a1._elements & 2
        ):
            raise ValueError
        return struct_pack(head, a0._address, a1._address, a2, a3, a0.nbytes, a1.nbytes)

Anything out of the ordinary ends in some exception; core/kernel.py then looks for the reason.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any


def packer(
    elements: Sequence[int],
    written: Sequence[bool],
    optional: Sequence[bool],
    layout: struct.Struct,
) -> Callable[[Any, bytes, Sequence[Any]], bytes]:
    """A function (device, head, args) -> a record: its head, packed arguments, covered bytes.

    Position by position; `elements` has the bits that a pointer takes (core/elements.py), 0 for a
    scalar.
    """
    names = [f"a{i}" for i in range(len(elements))]
    tests, values, covered = [], [], []
    for name, bits, is_written, is_optional in zip(names, elements, written, optional, strict=True):
        if not bits:
            values.append(name)
            continue
        test = f"{name}._storage.device is not device or not {name}._elements & {bits}"
        test += f" or {name}._readonly" if is_written else ""
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
