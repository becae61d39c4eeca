"""The preload library around a program that knows of no GPU: what it shows, what it refuses.

When this fails, a foreign program on the emulated GPU crashes or sees half a device.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import preload
import pytest

from sparkle_drv.testing.emulated_options import LENIENT

SEE = ("ls", "/dev/dri")
# A program that submits `dwords` to the first card; `then` says what it does with the job.
PROGRAM = """
import os
import time
from sparkle_drv.amd.kmd.raw import DrmNode, IoctlError, linux, open_path
from sparkle_drv.amd.kmd.gpu import Gpu
gpu = Gpu(DrmNode(linux(), open_path("/dev/dri/renderD128")))
job = gpu.submit("compute", {dwords})
{then}
"""
BAD_OPCODE = [0xC0007700, 0]
# WAIT_REG_MEM for the first dword of the IB, its own header, to become 0: never.
FOREVER = [0xC0053C00, 0x13, 0, 1, 0, 0xFFFFFFFF, 4]


def see(temporary, command=SEE, **settings):
    """A command behind the library, with nothing of the caller's SPARKLE_EMU settings."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("SPARKLE_EMU")}
    before = os.environ.get("LD_PRELOAD", "").split()  # a sanitizer's library must come first
    ours = {
        "LD_PRELOAD": " ".join([*before, str(preload.library())]),
        "TMPDIR": str(temporary),
        "LC_ALL": "C",
    }
    return subprocess.run(
        command, env=kept | ours | settings, capture_output=True, text=True, timeout=60, check=False
    )


def test_cards_have_options(tmp_path):
    then = "print(gpu.node.version()[2], gpu.node.info('MEMORY', 'struct drm_amdgpu_memory_info')"
    then += ".cpu_accessible_vram.total_heap_size >> 20)\ngpu.done(job, 10)"
    nop = [0xFFFF1000] * 8
    done = program(tmp_path, nop, then, SPARKLE_EMU="gfx1103:kms-3.42:bar-256M,gfx1030")
    assert (done.returncode, done.stdout.split()) == (0, ["42", "256"]), done.stderr


@pytest.mark.parametrize("mode", ["", "strict", "lenient", ",".join(LENIENT)])
def test_a_card_for_each_name(tmp_path, mode):
    done = see(tmp_path, SPARKLE_EMU="gfx1100,gfx1036", SPARKLE_EMU_MODE=mode)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["renderD128", "renderD129"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("unset", [{}, {"SPARKLE_EMU": ""}])
def test_without_a_name_everything_passes_through(tmp_path, unset):
    done = see(tmp_path, **unset, SPARKLE_EMU_MODE="strickt")
    bare = subprocess.run(SEE, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (bare.returncode, bare.stdout)
    assert "sparkle" not in done.stderr


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        *(
            ({"SPARKLE_EMU": bad}, f"SPARKLE_EMU={bad}: card {card}: {why}")
            for bad, card, why in (
                ("gfx1110", 0, "no chip is called 'gfx1110'; known are gfx1030"),
                ("gfx1100,", 1, "no chip is called ''; known are"),
                ("gfx1100,gfx1103:kms-3.99", 1, "kms-3.99: expected kms-3.42 to kms-3.64"),
                ("gfx1103:bar-0M", 0, "bar-0M: expected a size above 0"),
                ("gfx1103:cu-0,gfx1100", 0, "cu-0: expected an even number"),
                ("gfx1103:se-1:se-1", 0, "se is given twice"),
                ("gfx1103:" + "x" * 200, 0, "expected a text of less than 128 characters"),
                ("record:gfx1103:foo", 0, "no option is called 'foo'"),
            )
        ),
        (
            {"SPARKLE_EMU": ",".join(["gfx1036"] * 17)},
            f"SPARKLE_EMU={','.join(['gfx1036'] * 17)}: expected at most 16 cards",
        ),
        (
            {"SPARKLE_EMU_MODE": "strickt"},
            "SPARKLE_EMU_MODE=strickt: expected strict, lenient, or names of leniencies",
        ),
        *(
            (
                {"SPARKLE_EMU_JOB_LIMIT_S": bad},
                f"SPARKLE_EMU_JOB_LIMIT_S={bad}: expected seconds above 0, at most 1000000000",
            )
            for bad in (
                "ten",
                "0",
                "-1",
                "1e3",
                "1s",
                "0.0000000001",
                "nan",
                " 1",
                "1000000001",
                ".",
            )
        ),
        ({"SPARKLE_EMU_TRACE": "/proc/no/such"}, "SPARKLE_EMU_TRACE=/proc/no/such: "),
        ({"TMPDIR": "/proc/no/such"}, "SPARKLE_EMU=gfx1100: No such file"),
    ],
)
def test_what_cannot_be_served_ends_the_program(tmp_path, settings, said):
    """Else it would go on to a real card, or be judged in another mode than asked for."""
    done = see(tmp_path, **{"SPARKLE_EMU": "gfx1100"} | settings)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"sparkle: {said}")
    assert list(tmp_path.iterdir()) == []


def program(temporary, dwords, then, **settings):
    text = PROGRAM.format(dwords=dwords, then=then)
    command = (sys.executable, "-c", text)
    return see(temporary, command, **{"SPARKLE_EMU": "gfx1100"} | settings)


@pytest.mark.parametrize("until", ["gpu.done(job, 10)", "time.sleep(0.3)"])
def test_a_fault_is_told_when_it_happens(tmp_path, until):
    """A program that aborts runs no destructors, and may not ask about its job before."""
    then = f"try:\n    {until}\nexcept IoctlError:\n    pass\nos.abort()"
    done = program(tmp_path, BAD_OPCODE, then)
    assert done.returncode == -signal.SIGABRT
    [line] = [line for line in done.stderr.splitlines() if line.startswith("sparkle: ")]
    assert line.startswith("sparkle: card 0: a job faulted: compute ")
    assert "opcode 0x77" in line


def test_the_job_limit_is_what_was_asked_for(tmp_path):
    then = "try:\n    gpu.done(job, 8)\nexcept IoctlError as error:\n    print(error.errno)"
    done = program(tmp_path, FOREVER, then, SPARKLE_EMU_JOB_LIMIT_S="0.05")
    assert done.returncode == 0
    assert done.stdout.split() == ["62"]  # ETIME
    assert "the job's time is over" in done.stderr


def test_a_stale_library_is_not_judged(tmp_path, monkeypatch):
    old = tmp_path / "libsparkle_amdgpu.so"
    monkeypatch.setattr(preload, "ROOT", tmp_path)
    monkeypatch.setattr(preload, "LIBRARY", old)
    with pytest.raises(pytest.skip.Exception, match="is missing: make preload"):
        preload.library()
    source = tmp_path / "native" / "emu" / "kmd" / "a.c"
    source.parent.mkdir(parents=True)
    source.touch()
    old.touch()
    os.utime(old, ns=(1, 1))
    with pytest.raises(pytest.skip.Exception, match=r"older than native/emu/kmd/a\.c: make"):
        preload.library()
    os.utime(source, ns=(0, 0))
    assert preload.library() == old
