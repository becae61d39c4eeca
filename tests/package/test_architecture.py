"""A call passes few files: a launch and a `ctx.gemm` as docs/architecture.md makes them, and a
launch on each kind of device until it calls the kernel, the driver or the ioctl.

When this fails, the launch path has grown: a contributor must read more to follow one call.

`make way CALL=KIND` prints the files (ways.py).
"""

from __future__ import annotations

import pytest
import ways

pytestmark = pytest.mark.timeout(600)  # the build, where `make lint` has not made it
# "launch", "first" and "again" are followed to the result.
# An "amdgpu" launch has numbers that its queue has not had yet, and is encoded.
MOST = {
    "launch": 15,
    "first": 57,
    "again": 19,
    "cpu": 12,
    "cuda": 12,
    "amdgpu": 12,
    "amdgpu-again": 12,
    "gemm": 14,
}


@pytest.mark.parametrize("kind", MOST)
def test_few_files_are_passed(kind, tmp_path):
    files = ways.files(kind, tmp_path)
    assert len(files) <= MOST[kind], "\n".join([f"{len(files)} files:", *files])
    measured = ("sparkle_drv/sched/",) if kind == "first" else ("native/hot/", "native/core/")
    for folder in measured:
        assert any(path.startswith(folder) for path in files), f"nothing of {folder} was seen"
