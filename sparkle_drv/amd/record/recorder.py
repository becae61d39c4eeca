"""Records the calls to every amdgpu node that this process opens inside `recorded(PATH)`.

    with recorded("run.rec"):
        with sp.open("emu:gfx1100") as dev:
            ...

native/kmd/record.c does the recording, on real and emulated nodes. docs/recording.md has the form
of the file. `replay.py` repeats a recording.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from sparkle_drv._native import ffi, lib
from sparkle_drv.fork_lock import fork_lock

_lock = fork_lock()
_active: list[Recorder] = []
# recorders of render nodes that are still open: calls on these nodes go through the recorder
_kept: list[Any] = []


class Recorder:
    """Writes a recording to `path`. Raises OSError if the file cannot be written.

    With `memory`, also records how the CPU and each job change BOs of up to `max_bo` bytes (0: 64
    MiB). A replay needs these changes. To find them, the recorder waits for the end of every job,
    `wait_s` seconds at most (0: 10). At `max_nbytes` (0: 1 GiB) the recording stops, and the
    recorded run continues.

    >>> with lowlevel.recorded("run.rec", memory=False) as recorder:
    ...     sp.open("emu:gfx1100").close()
    >>> type(recorder).__name__
    'Recorder'
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        memory: bool = True,
        max_nbytes: int = 0,
        max_bo: int = 0,
        wait_s: float = 0,
    ) -> None:
        self.path = os.fspath(path)
        self._options = ffi.new("struct sp_record_options *")
        self._options.flags = lib.SP_RECORD_MEMORY if memory else 0
        self._options.max_nbytes, self._options.max_bo = max_nbytes, max_bo
        self._options.wait_ns = int(wait_s * 1e9)
        self._raw: dict[int, Any] = {}  # address of a wrapped sp_kmd_ops -> its recorder
        # opens a recorder once, to raise here if the path is not writable
        lib.sp_record_free(self._open(lib.sp_kmd_linux()))

    def _open(self, ops: Any) -> Any:
        path = self.path if not self._raw else f"{self.path}.{len(self._raw) + 1}"
        out = ffi.new("struct sp_record **")
        rc = lib.sp_record_open(ops, os.fsencode(path), self._options, out)
        if rc < 0:
            raise OSError(-rc, os.strerror(-rc), path)
        return out[0]

    def around(self, ops: Any) -> Any:
        """Returns a `struct sp_kmd_ops *` that makes the calls of `ops` and records them. The first
        `ops` is recorded to `path`, later ones to `path`.2 and so on.
        """
        key = int(ffi.cast("uintptr_t", ops))
        if key not in self._raw:
            self._raw[key] = self._open(ops)
        return lib.sp_record_ops(self._raw[key])

    def close(self) -> None:
        """Ends the recording. Render nodes that are still open go on working; their later calls are
        not recorded. Raises OSError if a write failed.
        """
        failed, nodes = 0, ffi.new("uint32_t *")
        for raw in self._raw.values():
            failed = lib.sp_record_stop(raw, nodes) or failed
            if nodes[0]:
                _kept.append(raw)
            else:
                lib.sp_record_free(raw)
        self._raw = {}
        if failed < 0:
            raise OSError(-failed, os.strerror(-failed), self.path)


@contextlib.contextmanager
def recorded(path: str | os.PathLike[str], **options: Any) -> Iterator[Recorder]:
    """Records all amdgpu nodes that this process opens inside the `with` block. `options` are the
    options of Recorder. Raises ValueError inside another recording, OSError if a write failed.

    >>> with lowlevel.recorded("run.rec", memory=False):
    ...     sp.open("emu:gfx1100").close()
    >>> with open("run.rec") as file:
    ...     file.readline()
    '# sparkle recording 1, docs/recording.md\\n'
    """
    with _lock:
        if _active:
            raise ValueError(f"another recording is under way: {_active[0].path}")
        recorder = Recorder(path, **options)
        _active.append(recorder)
    try:
        yield recorder
    finally:
        with _lock:
            _active.clear()
        recorder.close()


def around(ops: Any) -> Any:
    """Wraps `ops`, the calls to a kernel driver, so that the active recording records them. Returns
    `ops` itself if no recording is active.

    >>> calls = object()  # those of amd/kmd: open, ioctl, mmap
    >>> lowlevel.around(calls) is calls
    True
    """
    with _lock:
        return _active[0].around(ops) if _active else ops
