"""Raises KeyboardInterrupt at a chosen position of a call, to try all positions one after another.

Positions are of two kinds, in the code of the package and of the standard library below it:
* before an instruction that can raise: Ctrl-C arrives at a call, at the start of a function and at
  a jump back; MemoryError may come wherever an object is made;
* after a function written in C has returned, before its result is stored.
Between other instructions CPython 3.11 and later raise nothing, so there is no position. Neither is
there one before the `__exit__` that ends a `with` block: a lock's cannot fail.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import sys
from pathlib import Path

TESTS = str(Path(__file__).parents[1])
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
    """Counts positions in a `with` block, and raises at number `at`; the first is 1.

    With `once`, a place in the code counts only when it is reached first. `where` says in words
    where the interrupt was raised; it is "" if the block had fewer positions.
    """

    def __init__(self, at, once=True):
        self.at, self.count, self.where, self.seen = at, 0, "", set() if once else None

    def _position(self, frame, kind):
        if self.seen is not None:
            place = frame.f_code, frame.f_lasti, kind
            if place in self.seen:
                return
            self.seen.add(place)
        self.count += 1
        if self.count == self.at:
            sys.settrace(None)
            sys.setprofile(None)
            code = frame.f_code
            self.where = (
                f"{kind} {code.co_qualname}:{frame.f_lineno} ({Path(code.co_filename).name})"
            )
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


def sweep(call, check, once=True, first=1, step=1):
    """Calls `call` once for each position, and `check(where)` after each.

    Returns the number of positions tried. The last call, which ends without an interrupt, is
    checked too, with "".
    """
    for at in range(first, 1 << 30, step):
        with contextlib.suppress(KeyboardInterrupt), Interrupt(at, once) as interrupt:
            call()
        check(interrupt.where)
        if not interrupt.where:
            return (at - first) // step
    raise AssertionError("expected an end of the positions")
