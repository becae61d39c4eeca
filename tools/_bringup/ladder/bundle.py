"""The bundle, one file to send: report, dumps, the device's facts, the command, other programs'
records of a hang.
"""

from __future__ import annotations

import io
import json
import re
import subprocess
import tarfile
from collections.abc import Mapping
from typing import Any

from . import device_facts, evidence

README = """Files that `bringup.py ladder --bundle` wrote on this machine.

report.json   every rung: status, time, ioctl, errno, causes
dumps/        for each failed rung: IBs decoded, fences, contexts, page fault, sysfs, debugfs
info.json     the device's own facts
kernel.log    the kernel's lines about amdgpu and drm, if this user may read them
machine.json  kernel release, package and Python versions, the command
evidence/     devcoredumps, RADV's hang reports and files that were named; list.txt names the
              files that were found and those that were left out

Names of this host and user, and serial numbers, are removed from texts.

{verified}
"""


def pack(uri: str, document: dict[str, Any], others: Mapping[str, str | bytes]) -> bytes:
    """Returns the bundle as a .tar.gz. `others` are the files that evidence.gather found."""
    files: dict[str, str | bytes] = {
        "README.txt": README.format(verified=document["verified"]),
        "report.json": json.dumps(document, indent=1, default=str),
        "machine.json": json.dumps(document["machine"], indent=1),
        "kernel.log": kernel_log(),
        "info.json": json.dumps(device_facts.safely(uri), indent=1, default=str),
    }
    for rung in document["rungs"]:
        for part, text in rung["facts"].get("dump", {}).items():
            files[f"dumps/{rung['name']}.{part}.txt"] = text
    files |= others
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for path, text in files.items():
            data = evidence.scrubbed(text).encode() if isinstance(text, str) else text
            entry = tarfile.TarInfo(f"bringup/{path}")
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return packed.getvalue()


def kernel_log() -> str:
    """Returns dmesg's lines about the GPU, or the reason why there are none."""
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
