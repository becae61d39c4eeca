"""The preload library's record mode around programs that know nothing of it; RADV's vecadd recorded
over the emulator, compared with ours and replayed.

When this fails, recording disturbs the program that is recorded, or loses its submissions.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

import preload
import pytest
from where import ROOT

import sparkle_drv as sp
from sparkle_drv import lowlevel
from sparkle_drv.lowlevel import read_recording, recorded

RADV = ROOT / "tests/radv"
CAPTURES = ROOT / "tests/golden/captures"
ASK = """
import fcntl, os, sys
fds = [os.open("/dev/dri/renderD128", os.O_RDWR)]
fds.append(os.dup(fds[0]))
for fd in fds:
    fcntl.ioctl(fd, 0xC010640C, bytearray((5).to_bytes(16, "little")))
{more}
"""


def run(tmp_path, command, after=(), **settings):
    """The command with the library, and those `after` it, loaded before its own."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SPARKLE_EMU", "SPARKLE_REC"))}
    before = os.environ.get("LD_PRELOAD", "").split()  # a sanitizer's library must come first
    ours = {
        "LD_PRELOAD": " ".join(map(str, (*before, preload.library(), *after))),
        "TMPDIR": str(tmp_path),
        "LC_ALL": "C",
    }
    return subprocess.run(
        command,
        cwd=tmp_path,
        env=kept | ours | settings,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def ask(tmp_path, more="", **settings):
    python = (sys.executable, "-I", "-S", "-c", ASK.format(more=more))
    return run(tmp_path, python, **{"SPARKLE_EMU": "record:gfx1100"} | settings)


def test_ioctls_of_a_program_are_written_under_its_number(tmp_path):
    done = ask(tmp_path, "print(os.getpid())")
    assert (done.returncode, done.stderr) == (0, "")
    (path,) = tmp_path.glob("*.rec")
    assert path.name == f"sparkle-{done.stdout.strip()}.rec"
    calls = [e for e in read_recording(path.read_text()) if hasattr(e, "rc")]
    assert [(c.name, c.node, c.rc, c.after[8]) for c in calls] == [("GET_CAP", 1, 0, 3)] * 2


def test_a_program_that_is_killed_leaves_what_it_did(tmp_path):
    done = ask(tmp_path, "os.kill(os.getpid(), 9)", SPARKLE_RECORD="a.rec")
    assert done.returncode == -9
    assert len([e for e in read_recording((tmp_path / "a.rec").read_text())]) == 3


def test_a_program_started_by_a_recorded_one_has_its_own_file(tmp_path):
    child = "import subprocess; subprocess.run([sys.executable, '-I', '-S', '-c', sys.argv[1]])"
    inner = ASK.format(more="")
    python = (sys.executable, "-I", "-S", "-c", ASK.format(more=child), inner)
    done = run(tmp_path, python, SPARKLE_EMU="record:gfx1100", SPARKLE_RECORD="a.rec")
    assert (done.returncode, done.stderr) == (0, "")
    names = sorted(path.name for path in tmp_path.glob("a.rec*"))
    assert len(names) == 2
    assert re.fullmatch(r"a\.rec\.\d+", names[1])


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"SPARKLE_RECORD": "/proc/no/such"}, "SPARKLE_RECORD: /proc/no/such: No such file"),
        ({"SPARKLE_RECORD_MAX": "much"}, "SPARKLE_RECORD: sparkle-"),
        ({"SPARKLE_EMU": "record:gfx1"}, "SPARKLE_EMU=record:gfx1: "),
        ({"SPARKLE_EMU": "records"}, "SPARKLE_EMU=records: "),
        ({"SPARKLE_EMU": "record", "SPARKLE_RECORD": "/proc/x"}, "SPARKLE_RECORD: /proc/x: "),
    ],
)
def test_what_cannot_be_recorded_ends_the_program(tmp_path, settings, said):
    done = ask(tmp_path, **settings)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"sparkle: {said}")


def test_a_recording_that_is_full_is_told_and_the_program_goes_on(tmp_path):
    more = "for _ in range(9000): fcntl.ioctl(fds[0], 0xC010640C, bytearray([5] + 15 * [0]))\n"
    settings = {"SPARKLE_RECORD": "a.rec", "SPARKLE_RECORD_MAX": "1"}
    done = ask(tmp_path, f"{more}print('done')", **settings)
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert done.stderr == (
        "sparkle: recording a.rec: the file reached its size limit; the recording stopped\n"
    )
    assert (tmp_path / "a.rec").stat().st_size <= (1 << 20) + 100


def test_real_cards_are_not_hidden_and_other_ioctls_pass(tmp_path):
    """Where there is no card nothing is written."""
    words = "import fcntl, os; r, w = os.pipe(); os.write(w, b'abc')\n"
    words += "print(fcntl.ioctl(r, 0x541B, bytearray(4))); print(os.path.exists('/dev/dri'))"
    command = (sys.executable, "-I", "-S", "-c", words)
    bare = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    done = run(tmp_path, command, SPARKLE_EMU="record")
    assert (done.returncode, done.stdout, done.stderr) == (0, bare.stdout, "")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module", params=["gfx1036", "gfx1100"])
def radv(request, tmp_path_factory):
    """(chip, recording) of RADV's vecadd on the compute queue."""
    sys.path[:0] = [str(RADV)]
    import mesa
    import run as harness

    folder = tmp_path_factory.mktemp("radv")
    try:
        driver, program = mesa.system(), harness.build_program()
    except mesa.Absent as absent:
        pytest.skip(str(absent))
    preload.library()
    path = folder / "radv.rec"
    env = harness.environment(driver, f"record:{request.param}")
    env |= {"SPARKLE_RECORD": str(path), "SPARKLE_RECORD_MEMORY": "1", "TMPDIR": str(folder)}
    command = (str(program), str(RADV / "shaders"), "vecadd", "compute")
    code, said = harness.run(command, env)
    assert code == 0, said
    assert harness.last_line(said).startswith("right ")
    return request.param, path


BETWEEN = """
#include <stdlib.h>
#include <unistd.h>
int access(const char *path, int mode)
{
    (void)path, (void)mode;
    setenv("SPARKLE_EMU", "gfx1100", 1);
    return -1;
}
/* The call goes to the first library, which asks for its settings now, then to the one above. */
__attribute__((constructor)) static void begin(void)
{
    int (*volatile call)(const char *, int) = access;
    call("/dev/dri", 0);
}
"""


def test_the_kernels_own_calls_are_recorded_as_the_emulators(tmp_path):
    """The library twice: the first records what it takes for a real kernel, the second is one."""
    source, between = tmp_path / "between.c", tmp_path / "between.so"
    source.write_text(BETWEEN)
    second = shutil.copy(preload.library(), tmp_path / "second.so")
    subprocess.run(("cc", "-shared", "-fPIC", "-o", str(between), str(source)), check=True)
    python = (sys.executable, "-I", "-S", "-c", ASK.format(more=WORK))
    after = (between, second)
    done = run(tmp_path, python, after, SPARKLE_EMU="record", SPARKLE_RECORD="a.rec")
    assert (done.returncode, done.stdout, done.stderr) == (0, "-12\n", "")
    calls = [e for e in read_recording((tmp_path / "a.rec").read_text()) if hasattr(e, "rc")]
    assert [(c.name, c.rc) for c in calls][2:] == [
        ("AMDGPU_GEM_CREATE", 0),
        ("AMDGPU_GEM_CREATE", -12),
        ("GEM_CLOSE", 0),
    ]


WORK = """
import struct
made = bytearray(struct.pack("<4Q", 4096, 4096, 2, 0))
fcntl.ioctl(fds[0], 0xC0206440, made)
try:
    fcntl.ioctl(fds[1], 0xC0206440, bytearray(struct.pack("<4Q", 1 << 60, 4096, 2, 0)))
except OSError as error:
    print(-error.errno)
fcntl.ioctl(fds[1], 0x40086409, made[:8])
"""


def differences(a, b):
    """What differs between the dispatches of two inputs: (register, field, values)."""
    found = lowlevel.diff(a, b, ["*.addr*", "COMPUTE_PGM_LO", "COMPUTE_USER_DATA_*", "DMA_DATA*"])
    return {
        (change.name, str(change.old), str(change.new))
        for one in found
        if "DISPATCH" in one.what
        for change in one.changes
    }


def test_radv_compares_with_ours_as_its_golden_capture_does(radv, tmp_path):
    chip, path = radv
    ours = tmp_path / "ours.rec"
    with recorded(ours), sp.open(f"emu:{chip}") as dev, dev.kernel("vecadd_f32") as kernel:
        x, y, z = (dev.buffer(4000) for _ in range(3))
        with dev.queue() as queue:
            queue.launch(kernel, x, y, z, 1000, groups=(16, 1, 1)).wait()
    own = lowlevel.read_ibs(ours.read_text())
    golden = lowlevel.read_ibs((CAPTURES / f"radv_vecadd_{chip}_compute.txt").read_text())
    theirs = lowlevel.read_ibs(path.read_text())
    assert differences(theirs, own) == differences(golden, own) != set()
    assert differences(golden, theirs) == set()


def test_radvs_run_is_replayed_without_radv(radv):
    from _bringup.ladder.recording import replay

    outcome = replay(radv[1], f"emu:{radv[0]}")
    assert (outcome.difference, outcome.skipped) == ("", {})
    assert outcome.jobs >= 1
