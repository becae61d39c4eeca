"""One file to send: the report, dumps, what the node says, and what ran it."""

from __future__ import annotations

import io
import json
import re
import subprocess
import tarfile
from typing import Any

from . import about

README = """What `bringup.py ladder --bundle` wrote on this machine.

report.json   every rung: status, time, ioctl, errno, causes
dumps/        per rung that failed: IBs decoded, fences, contexts, page fault, sysfs, debugfs
info.json     what the node says of itself
kernel.log    the kernel's words about amdgpu and drm, where this user may read them
machine.json  kernel release, package and Python versions, the command

{verified}
"""


def pack(uri: str, document: dict[str, Any]) -> bytes:
    """The .tar.gz."""
    files = {
        "README.txt": README.format(verified=document["verified"]),
        "report.json": json.dumps(document, indent=1, default=str),
        "machine.json": json.dumps(document["machine"], indent=1),
        "kernel.log": kernel_log(),
        "info.json": json.dumps(about.safely(uri), indent=1, default=str),
    }
    for rung in document["rungs"]:
        for part, text in rung["facts"].get("dump", {}).items():
            files[f"dumps/{rung['name']}.{part}.txt"] = text
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for path, text in files.items():
            data = text.encode()
            entry = tarfile.TarInfo(f"bringup/{path}")
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return packed.getvalue()


def kernel_log() -> str:
    """What dmesg says of the GPU, or why it says nothing."""
    try:
        done = subprocess.run(
            ["dmesg"], capture_output=True, text=True, errors="replace", timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"dmesg: {error}\n"
    if done.returncode:
        return done.stderr
    ours = [line for line in done.stdout.splitlines() if re.search("amdgpu|drm", line, re.I)]
    return "\n".join(ours[-2000:]) + "\n"
