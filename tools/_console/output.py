"""How a tool's results leave it: standard output, and the files that its options name.

A failure of one costs that one alone. It is told in a line on stderr and makes the exit code 1;
whatever else there is to write is still written. Used by every tool, and by benchmarks/.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from _console.problems import FAILED


def save(prog: str, path: str | os.PathLike[str], content: str | bytes) -> bool:
    """Write a file whole. False: it could not be written, and stderr says why."""
    from sparkle_drv import kept  # here: a tool says itself when the package does not load

    return written(prog, path, lambda: kept.put(Path(path), _encoded(content)))


def overlap(*paths: str | os.PathLike[str] | None) -> bool:
    """Do two of these name one file, so that the later would replace the earlier? Not a device or a
    pipe, which takes both.
    """
    files = [
        os.path.realpath(p) for p in paths if p and (os.path.isfile(p) or not os.path.exists(p))
    ]
    return len(set(files)) < len(files)


def so_far(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Write what a long run has until now, so that a killed run leaves it. A pipe or a device takes
    a text once, so it gets the last one only. `save` writes that, and tells what fails.
    """
    from sparkle_drv import kept

    with contextlib.suppress(OSError, ValueError):
        if not kept.is_stream(Path(path)):
            kept.put(Path(path), _encoded(content))


def written(prog: str, path: str | os.PathLike[str], write: Callable[[], object]) -> bool:
    """`write` a file in a manner of its own. False: it raised OSError or ValueError, and stderr has
    the reason.
    """
    try:
        write()
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        complain(prog, path, error)
        return False
    return True


def complain(prog: str, path: str | os.PathLike[str], error: Exception) -> None:
    """The line on stderr about a file."""
    print(f"{prog}: could not write {os.fspath(path)}: {reason(error)}", file=sys.stderr)


def reason(error: Exception) -> str:
    """Why, in one line."""
    said = error.strerror if isinstance(error, OSError) else None
    return " ".join(str(said or error).split()) or type(error).__name__


def _encoded(content: str | bytes) -> bytes:
    # A file name that is not UTF-8 reaches Python as lone surrogates, which UTF-8 cannot encode.
    return content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content


class _Stream:
    """A text stream that remembers its first error instead of raising it. `stream` is None where
    the descriptor was closed before this process began.
    """

    def __init__(self, stream: Any) -> None:
        self._closed = stream is None
        self._stream = open(os.devnull, "w") if stream is None else stream  # noqa: SIM115
        self.error: Exception | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    @property
    def buffer(self) -> Any:
        """The bytes below the text, with the same promise."""
        return _Bytes(self, self._stream.buffer)

    def write(self, text: str) -> int:
        self.attempt(lambda: self._stream.write(text))
        return len(text)

    def flush(self) -> None:
        self.attempt(self._stream.flush, writes=False)

    def attempt(self, work: Callable[[], object], writes: bool = True) -> None:
        if self.error is not None:
            return
        if self._closed and writes:
            self.error = OSError(errno.EBADF, "it is closed")
            return
        try:
            work()
        except (OSError, ValueError) as error:  # ValueError: text that its encoding has not
            self.error = error
            self._drop()

    def _drop(self) -> None:
        """Send what is still buffered nowhere: else the interpreter's last flush fails, too."""
        with contextlib.suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)


class _Bytes:
    """The binary side of a `_Stream`."""

    def __init__(self, text: _Stream, stream: Any) -> None:
        self._text, self._stream = text, stream

    def write(self, data: bytes) -> int:
        self._text.attempt(lambda: self._stream.write(data))
        return len(data)

    def flush(self) -> None:
        self._text.attempt(self._stream.flush, writes=False)


def guarded(prog: str, work: Callable[[], int]) -> int:
    """`work`'s exit code, but at least 1 when standard output did not take everything. A line on
    stderr says so, unless its reader has left, as `| head` does. `work` never sees an error of
    standard output or stderr.
    """
    before = sys.stdout, sys.stderr
    if None in before:  # no file that is opened from now on may become descriptor 1 or 2
        while (held := os.open(os.devnull, os.O_RDWR)) <= 2:
            pass
        os.close(held)
    out, err = _Stream(before[0]), _Stream(before[1])
    sys.stdout, sys.stderr = out, err
    leaving = None
    try:
        try:
            code = work()
        except SystemExit as leave:  # argparse: --help, or wrong usage
            leaving, code = leave, FAILED
        out.flush()
        if out.error is not None:
            if not isinstance(out.error, BrokenPipeError):  # a reader that left wants no more words
                print(f"{prog}: could not write standard output: {reason(out.error)}", file=err)
            code = code or FAILED
        elif leaving is not None:
            raise leaving
        err.flush()
        return code
    finally:
        sys.stdout, sys.stderr = before
