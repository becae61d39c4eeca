"""Other programs' records of a hang, for the bundle: devcoredumps, RADV's reports, and files that
the user names.

Sizes are bounded. A list names the files that are left out, with the reason. The names of host and
user, and everything that looks like a serial number, are removed from texts.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

MOST, MOST_IN_ALL = 16 << 20, 32 << 20  # largest size of one file, and of all files, in bytes
REPORTS = 2  # number of RADV reports to take, the newest first
# The files of a RADV report that are taken as evidence. Its other files contain shaders and the
# program's name.
RADV_FILES = ("trace.log", "umr_ring.log", "registers.log", "vm_fault.log", "gpu_info.log")
AMDGPU = b"**** AMDGPU Device Coredump ****"
LEFT_OUT = "(left out)"
_SERIAL = re.compile(r"(?i)\b(serial(?:[ _]number)?|unique_id|uuid)(\s*[:=]\s*)\S+")
_PROCESS = re.compile(r"^(process_name: ).*", re.M)


def candidates(root: Path, home: Path | None) -> Iterator[Path]:
    """Yields the records of hangs that Linux and RADV have written, where they exist."""
    yield from sorted(root.glob("sys/class/devcoredump/*/data"))
    if home is None:
        return
    reports = [path for path in home.glob("radv_dumps_*") if path.is_dir()]
    for report in sorted(reports, key=lambda path: path.stat().st_mtime)[-REPORTS:]:
        yield from (path for name in RADV_FILES if (path := report / name).is_file())


def gather(
    named: Iterable[str] = (), root: Path = Path("/"), home: Path | None = None
) -> dict[str, str | bytes]:
    """Returns {path in the bundle: contents} of the files `named` and of all records found.

    The entry "evidence/list.txt" has a line for every file, also for those that are left out.
    """
    found: dict[str, str | bytes] = {}
    said: list[str] = []
    left = MOST_IN_ALL
    for path in (*map(Path, named), *candidates(root, home)):
        try:
            data = contents(path, min(MOST, left))
        except (OSError, ValueError) as error:
            why = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else error
            said.append(f"{path}: left out: {why}")
            continue
        left -= len(data)
        name = "evidence/" + ".".join(filter(None, (str(len(found)), path.parent.name, path.name)))
        found[scrubbed(name)] = text_or_bytes(data)
        said.append(f"{path}: {len(data)} bytes, as {name}")
    found["evidence/list.txt"] = scrubbed("\n".join(said) or "nothing was found") + "\n"
    return found


def contents(path: Path, most: int) -> bytes:
    """Returns the contents of a file. Raises OSError, or ValueError if the file is too large or is
    not a dump of amdgpu.
    """
    if not path.is_file():
        path.stat()
        raise ValueError("expected a regular file")
    with path.open("rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise ValueError(f"expected at most {most} bytes, got more")
    if path.parts[-3:-2] == ("devcoredump",) and AMDGPU not in data[:4096]:
        raise ValueError("expected a dump of amdgpu, got another file")
    return data


def text_or_bytes(data: bytes) -> str | bytes:
    """Returns text data as a str without private names and numbers (`scrubbed`). Returns other
    data unchanged.
    """
    if b"\0" in data.rstrip(b"\0"):
        return data
    return scrubbed(data.rstrip(b"\0").decode(errors="replace"))


def scrubbed(text: str) -> str:
    """Returns the text without the names of this host and user, and without serial numbers."""
    text = _PROCESS.sub(rf"\1{LEFT_OUT}", _SERIAL.sub(rf"\1\2{LEFT_OUT}", text))
    home = os.path.expanduser("~")
    if home.count("/") > 1:
        text = text.replace(home, "~")
    for name, put in ((platform.node(), "HOST"), (os.path.basename(home), "USER")):
        if len(name) > 2 and name not in ("root", "localhost"):
            text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", put, text)
    return text
