"""The files of one machine's certificates in SPARKLE_HOME/cluster: names, modes, reading,
writing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from sparkle_drv import saved_files
from sparkle_drv.cluster.refused import Refused

CA, CERTIFICATE, KEY, REVOKED = "ca.pem", "cert.pem", "key.pem", "revoked.list"
CA_KEY, ISSUED, REQUEST = "ca.key", "issued", "request.pem"
"""At the CA: its key, and a folder with each key's newest certificate. Elsewhere: a request."""
_MOST_NBYTES = 1 << 17


def folder(home: str) -> Path:
    """Returns the folder of certificates in this SPARKLE_HOME."""
    return Path(home) / "cluster"


def read(path: Path, missing: str = "", secret: bool = False) -> bytes:
    """Reads a file. Raises Refused if that fails. If the file does not exist, the error has the
    text `missing`, which tells the user what to do. A `secret` file is refused if anyone but its
    owner may read it.
    """
    try:
        # O_NONBLOCK: a pipe of that name must not make open() wait for a writer.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as f:
            mode = os.fstat(f.fileno()).st_mode & 0o777
            if secret and mode & 0o077:
                raise Refused(
                    f"{path}: expected a key that only its owner may read, got mode {mode:04o}: "
                    f"type `chmod 600 {path}`, or make a new key if others may have read it"
                )
            data = f.read(_MOST_NBYTES + 1)
    except FileNotFoundError as error:
        raise Refused(f"{path} is missing: {missing}") from error
    except OSError as error:
        raise Refused(f"{path} is unreadable: {error.strerror}") from error
    if len(data) > _MOST_NBYTES:
        raise Refused(f"{path}: expected at most {_MOST_NBYTES} bytes, got more")
    return data


def write(into: Path, contents: Mapping[str, bytes]) -> None:
    """Writes each file whole, readable by its owner only, in the order given. The files survive a
    power cut, also in a new folder. Raises OSError if a file cannot be written.
    """
    new = [folder for folder in (into, *into.parents) if not folder.exists()]
    into.mkdir(mode=0o700, parents=True, exist_ok=True)
    for folder in reversed(new):
        saved_files.sync_folder(folder.parent)
    for name, content in contents.items():
        saved_files.replace(into / name, content, sync=True)
