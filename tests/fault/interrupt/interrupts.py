"""Raises KeyboardInterrupt at one position of a call after another, until all have been tried.

Positions are of two kinds, in the code of the package and of the standard library below it:
* before an instruction that can raise: Ctrl-C arrives at a call, at the start of a function and at
  a jump back; MemoryError may come wherever an object is made;
* after a function written in C has returned, before its result is stored.
Between other instructions CPython 3.11 and later raise nothing, so there is no position. Neither is
there one before the `__exit__` that ends a `with` block: a lock's cannot fail.
"""

from __future__ import annotations

import dis
import functools
import sys
from collections import Counter
from pathlib import Path
from zlib import crc32

TESTS = str(Path(__file__).parents[2])
SILENT = {
    *("CACHE", "COPY", "COPY_FREE_VARS", "DELETE_FAST", "END_FOR", "END_SEND", "EXTENDED_ARG"),
    *("GET_ITER", "IS_OP", "JUMP_FORWARD", "KW_NAMES", "LOAD_CLOSURE", "LOAD_CONST", "LOAD_DEREF"),
    *("LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_AND_CLEAR", "MAKE_CELL", "NOP", "POP_EXCEPT"),
    *("POP_JUMP_FORWARD_IF_NONE", "POP_JUMP_FORWARD_IF_NOT_NONE", "POP_JUMP_IF_NONE", "POP_TOP"),
    *("POP_JUMP_IF_NOT_NONE", "PRECALL", "PUSH_EXC_INFO", "PUSH_NULL", "RERAISE", "RETURN_CONST"),
    *("RETURN_VALUE", "STORE_DEREF", "STORE_FAST", "SWAP", "UNPACK_SEQUENCE", "WITH_EXCEPT_START"),
}


@functools.cache
def raising(code):
    """Returns the offsets of the instructions of `code` that can raise."""
    offsets, before = set(), []
    for step in dis.get_instructions(code):
        ends_with = step.opname == "CALL" and before[-3:] == ["LOAD_CONST None"] * 3
        if step.opname not in SILENT and not ends_with:
            offsets.add(step.offset)
        if step.opname not in ("PRECALL", "CACHE"):
            before.append(f"{step.opname} {step.argrepr}")
    return offsets


class Interrupt:
    """Raises at the first position in a `with` block that is not in the set `tried`, and adds it.

    With `each`, a place in the code has as many positions as the block reaches it, otherwise one.
    `every` leaves out all but one place in so many, the same ones in every run. `where` has the
    position in words; it is "" if no position was left.
    """

    def __init__(self, tried, each=False, every=1):
        self.every = every
        self.tried, self.where, self._reached = tried, "", Counter() if each else None

    def _position(self, frame, kind):
        position = frame.f_code, frame.f_lasti, kind
        if self._reached is not None:
            self._reached[position] += 1
            position = *position, self._reached[position]
        if position in self.tried:
            return
        if self.every > 1:
            place = f"{frame.f_code.co_name} {frame.f_lasti} {kind}"
            if crc32(place.encode()) % self.every:
                return
        self.tried.add(position)
        sys.settrace(None)
        sys.setprofile(None)
        code = frame.f_code
        name, file = getattr(code, "co_qualname", code.co_name), Path(code.co_filename).name
        self.where = f"{kind} {name}:{frame.f_lineno} ({file})"
        raise KeyboardInterrupt

    def _enter(self, frame, event, arg):
        if self.where or frame.f_code.co_filename.startswith(TESTS):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._step

    def _step(self, frame, event, arg):
        if event == "opcode" and not self.where and frame.f_lasti in raising(frame.f_code):
            self._position(frame, "before")
        return self._step

    def _profile(self, frame, event, arg):
        if event == "c_return" and not frame.f_code.co_filename.startswith(TESTS):
            self._position(frame, f"after {getattr(arg, '__name__', arg)} in")

    def __enter__(self):
        self._before = sys.gettrace(), sys.getprofile(), sys.unraisablehook
        # An interrupt in a finalizer ends only the finalizer.
        sys.unraisablehook = self._unraisable
        sys.setprofile(self._profile)
        sys.settrace(self._enter)
        return self

    def _unraisable(self, told):
        if not isinstance(told.exc_value, KeyboardInterrupt):
            self._before[2](told)

    def __exit__(self, *_):
        sys.settrace(self._before[0])
        sys.setprofile(self._before[1])
        sys.unraisablehook = self._before[2]


def all_of(tried=None, each=False, every=1):
    """Yields an Interrupt for each position; the last one meets none and interrupts nothing."""
    tried = set() if tried is None else tried
    while True:
        interrupt = Interrupt(tried, each, every)
        yield interrupt
        if not interrupt.where:
            return
