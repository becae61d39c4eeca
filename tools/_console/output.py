"""A tool's output: standard output, and the files that its options name.

If one output fails, the tool still writes all others. A line on stderr reports the failure, and the
exit code becomes 1. Every tool and benchmarks/ use this module.
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
    """Replaces a file's content atomically: a reader never sees half of it. If that fails, prints
    a line on stderr and returns False.
    """
    # The package is imported late, so that each tool can report a failure to load it.
    from sparkle_drv import saved_files

    return written(prog, path, lambda: saved_files.put(Path(path), _encoded(content)))


def overlap(*paths: str | os.PathLike[str] | None) -> bool:
    """True if two of these paths name one file, so that the later output would replace the earlier.
    A device file or a pipe does not count, because it accepts both texts.
    """
    files = [
        os.path.realpath(p) for p in paths if p and (os.path.isfile(p) or not os.path.exists(p))
    ]
    return len(set(files)) < len(files)


def so_far(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Writes the results so far, so that a killed run leaves them. A pipe or device file can take a
    text only once: `save` writes it at the end and reports failures.
    """
    from sparkle_drv import saved_files

    with contextlib.suppress(OSError, ValueError):
        if not saved_files.is_stream(Path(path)):
            saved_files.put(Path(path), _encoded(content))


def written(prog: str, path: str | os.PathLike[str], write: Callable[[], object]) -> bool:
    """Calls `write(path)`. If the call raises OSError or ValueError, prints a line on stderr and
    returns False.
    """
    try:
        write()
    except (OSError, ValueError) as error:  # a NUL in the name raises ValueError
        complain(prog, path, error)
        return False
    return True


def complain(prog: str, path: str | os.PathLike[str], error: Exception) -> None:
    """Prints a line on stderr with the file and the reason."""
    print(f"{prog}: could not write {os.fspath(path)}: {reason(error)}", file=sys.stderr)


def reason(error: Exception) -> str:
    """Returns the reason of a failure, in one line."""
    said = error.strerror if isinstance(error, OSError) else None
    return " ".join(str(said or error).split()) or type(error).__name__


def _encoded(content: str | bytes) -> bytes:
    # A file name that is not UTF-8 contains lone surrogates, which UTF-8 cannot encode.
    return content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content


class _Stream:
    """A text stream that remembers its first error instead of raising it.

    `stream` is None when the descriptor was closed before this process began.
    """

    def __init__(self, stream: Any) -> None:
        self._closed = stream is None
        self._stream = open(os.devnull, "w") if stream is None else stream  # noqa: SIM115
        self.error: Exception | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    @property
    def buffer(self) -> Any:
        """The binary stream below the text stream. It also remembers its first error instead of
        raising it.
        """
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
        except (OSError, ValueError) as error:  # the encoding lacks a character
            self.error = error
            self._drop()

    def _drop(self) -> None:
        """Discards buffered text. Otherwise the interpreter's last flush would fail as well."""
        with contextlib.suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)


class _Bytes:
    """The binary stream below a text `_Stream`. It reports errors to the `_Stream`."""

    def __init__(self, text: _Stream, stream: Any) -> None:
        self._text, self._stream = text, stream

    def write(self, data: bytes) -> int:
        self._text.attempt(lambda: self._stream.write(data))
        return len(data)

    def flush(self) -> None:
        self._text.attempt(self._stream.flush, writes=False)


def guarded(prog: str, work: Callable[[], int]) -> int:
    """Runs `work` and returns its exit code: at least 1 when standard output lost something.

    A line on stderr then gives the reason, unless the reader has left (`| head`). `work` never sees
    an error of standard output or stderr.
    """
    before = sys.stdout, sys.stderr
    if None in before:  # fills descriptors 0 to 2, so that no file opened later gets them
        while (held := os.open(os.devnull, os.O_RDWR)) <= 2:
            pass
        os.close(held)
    out, err = _Stream(before[0]), _Stream(before[1])
    sys.stdout, sys.stderr = out, err
    leaving = None
    try:
        try:
            code = work()
        except SystemExit as leave:  # raised by argparse for --help or wrong usage
            leaving, code = leave, FAILED
        out.flush()
        if out.error is not None:
            # a reader that has closed the pipe needs no message
            if not isinstance(out.error, BrokenPipeError):
                print(f"{prog}: could not write standard output: {reason(out.error)}", file=err)
            code = code or FAILED
        elif leaving is not None:
            raise leaving
        err.flush()
        return code
    finally:
        sys.stdout, sys.stderr = before
