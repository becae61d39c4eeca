"""Packs a package's wheels for several Pythons into one .tar.xz, which stores equal files once.

A wheel of numpy has 16 MiB, most of it the same for every Python. The first member is index.json:
{"3.12": {path: name of the member}}. gpu_kit.py packs; benchmarks/gpu_run.py unpacks with only the
standard library.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

INDEX = "index.json"


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


def pack(wheels: Mapping[str, Path], to: Path) -> None:
    """Packs each Python's wheel. The keys of `wheels` are versions of Python."""
    index: dict[str, dict[str, str]] = {}
    contents: dict[str, bytes] = {}
    for python, wheel in wheels.items():
        paths = index[python] = {}
        with zipfile.ZipFile(wheel) as zipped:
            for path in zipped.namelist():
                if not path.endswith("/"):
                    content = zipped.read(path)
                    paths[path] = hashlib.sha256(content).hexdigest()
                    contents[paths[path]] = content
    with tarfile.open(to, "w:xz") as archive:
        _add(archive, INDEX, json.dumps(index).encode())
        for name, content in contents.items():
            _add(archive, name, content)


def unpack(archive: Path, python: str, to: Path) -> None:
    """Unpacks the wheel for this Python. Raises KeyError if the archive has none."""
    with tarfile.open(archive, "r:xz") as packed:
        first = packed.next()
        index = packed.extractfile(first) if first else None
        if index is None:
            raise KeyError(python)
        places: dict[str, list[Path]] = {}
        for path, name in json.load(index)[python].items():
            places.setdefault(name, []).append(to / path)
        for member in packed:
            wanted = places.pop(member.name, [])
            content = packed.extractfile(member) if wanted else None
            data = content.read() if content else b""
            for place in wanted:
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(data)
            if not places:
                return
