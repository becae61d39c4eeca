"""examples/ run as their readers run them, on every device, and are found wrong when they are.

When this fails, somebody who copies an example starts from broken code.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import runpy
import sys
from types import SimpleNamespace

import forked
import pytest
from uris import OF_TOOLS
from where import ROOT

pytestmark = pytest.mark.devices(*OF_TOOLS)

FOLDER = ROOT / "examples"
PATH = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
IMPORTS = ("sparkle_drv.context", "sparkle_drv.ops", "sparkle_drv.mesh", "sparkle_drv.testing.sim",
           "sparkle_drv.testing.emu", "sparkle_drv.testing.simulated")  # fmt: skip
SCRIPTS = sorted(path.name for path in FOLDER.glob("*.py"))


@pytest.fixture
def egl(opened):
    return opened("egl:0")


def run(script, *words, folder=FOLDER):
    """The example as `python SCRIPT WORDS` runs it, but in this process: imports take longer than
    most examples. Returns its exit code and what it printed.
    """
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [str(folder / script), *map(str, words)])
        patch.setattr(sys, "path", [str(folder), *sys.path])
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                runpy.run_path(str(folder / script), run_name="__main__")
                code = 0
            except SystemExit as leave:
                code = leave.code or 0
    return SimpleNamespace(returncode=code, stdout=out.getvalue(), stderr=err.getvalue())


@pytest.fixture(scope="module")
def run_alone():
    """run_alone(script, *words): the example in a process of its own, as its readers run it."""
    with forked.Server(*IMPORTS) as python:

        def run(script, *words):
            done = python.run(FOLDER / script, *words, env=os.environ | {"PYTHONPATH": PATH})
            assert "Traceback" not in done.stderr
            return done

        yield run


def planted(tmp_path, name, old, new):
    """A copy of the examples with one mistake in it."""
    for path in FOLDER.glob("*.*"):
        text = path.read_text()
        if path.name == name:
            assert text.count(old) == 1
            text = text.replace(old, new)
        (tmp_path / path.name).write_text(text)
    return tmp_path


def test_devices_are_shown_with_their_limits(device):
    done = run("enumerate_devices.py", "-d", device.uri)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{device.uri}: {device.info.name} (")
    assert f"{device.info.max_group_size} at most" in done.stdout


def test_each_unusable_device_says_why():
    import sparkle_drv as sp

    done = run("enumerate_devices.py")
    assert done.returncode == 0
    for found in sp.discover():
        line = next(x for x in done.stdout.splitlines() if x.startswith(f"{found.uri}: "))
        assert found.usable == ("not usable" not in line)
        assert found.usable or found.reason in line


@pytest.mark.parametrize(("frames", "depth"), [(7, 3), (2, 3), (5, 1)])
def test_frames_through_a_pipeline(device, frames, depth):
    done = run("pipeline.py", "-d", device.uri, "--frames", frames, "--depth", depth)
    assert done.returncode == 0, done.stderr
    assert f"{frames} frames through {depth} slots, all right" in done.stdout
    assert re.search(r"overlapped: \d+\.\d ms, \d+% of the shorter one", done.stdout)


def test_a_pipeline_that_returns_its_input_is_found(device, tmp_path):
    folder = planted(tmp_path, "pipeline.py", "copy(self.host_out, y)", "copy(self.host_out, x)")
    done = run("pipeline.py", "-d", device.uri, "--frames", 4, folder=folder)
    assert done.returncode == 1
    assert "4 of 4 frames are wrong" in done.stderr


@pytest.mark.parametrize("n", [1, 65])  # a group, and one more
def test_a_raw_kernel(egl, n):
    done = run("raw_glsl_kernel.py", "-d", egl.uri, "-n", n)
    assert done.returncode == 0, done.stderr
    assert f"{n} elements, error" in done.stdout
    assert "of device time" in done.stdout


def test_a_raw_kernel_that_is_wrong_is_not_timed(egl, tmp_path):
    folder = planted(tmp_path, "raw_glsl_kernel.comp", "x[min(i + 1u, n - 1u)]", "x[n - 1u]")
    done = run("raw_glsl_kernel.py", "-d", egl.uri, "-n", 1000, folder=folder)
    assert (done.returncode, done.stdout) == (1, "")
    assert "wrong result: off by" in done.stderr


def test_a_raw_kernel_on_a_device_that_takes_no_glsl():
    done = run("raw_glsl_kernel.py", "-d", "cpu")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("cpu does not take this kernel: ")


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A SPARKLE_HOME of its own: what is measured here, beside other tests, nobody shall use."""
    monkeypatch.setenv("SPARKLE_HOME", str(tmp_path / "home"))
    return tmp_path


def test_a_product_wherever_it_is_fastest(home, egl):
    devices = "cpu,egl:0"
    done = run("matmul.py", "-d", devices, "-n", 40)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.match(r"40 x 40: \d+\.\d{3} ms, \d+\.\d GFLOPS\n", done.stdout)
    assert "\n-> " in done.stdout
    for uri in devices.split(","):
        assert f"\n{uri}: " in done.stdout


def test_a_product_that_is_wrong_is_found(home, tmp_path):
    folder = planted(tmp_path, "matmul.py", "c = ctx.gemm(a, b)", "c = ctx.gemm(a, a)")
    done = run("matmul.py", "-d", "cpu", "-n", 40, folder=folder)
    assert (done.returncode, done.stdout) == (1, "")
    assert "the product is wrong" in done.stderr


def drawn(script, home, *words, folder=FOLDER):
    """The run with a picture as SVG; a PNG is drawn of the cpu alone, which is soon measured."""
    for ending, begins in (("png", b"\x89PNG"), ("svg", b"<")):
        devices = "cpu,egl:0" if ending == "svg" else "cpu"
        picture = home / f"picture.{ending}"
        done = run(script, "-d", devices, "--picture", picture, *words, folder=folder)
        assert done.returncode == 0, done.stderr
        assert picture.read_bytes().startswith(begins)
    assert b"<svg" in picture.read_bytes()[:4096]
    return done


def test_juggling_is_drawn(home, egl):
    folder = planted(home, "juggling.py", "128, 256, 512)", "128)")
    done = drawn("juggling.py", home, folder=folder)
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["side", "cpu", "egl:0"]
    assert [line.split()[0] for line in lines[1:5]] == ["16", "32", "64", "128"]
    assert all(line.count("*") == 1 for line in lines[1:5])


def test_juggling_says_what_is_wrong(home, tmp_path):
    folder = planted(tmp_path, "juggling.py", "want = a.astype(np.float64) @ b", "want = a @ a")
    done = run("juggling.py", "-d", "cpu", folder=folder)
    assert (done.returncode, done.stdout) == (1, "")
    assert "cpu: off by" in done.stderr
    assert run("juggling.py", "--picture", "drawing.gif").returncode == 2
    nowhere = tmp_path / "no" / "such" / "folder.svg"
    short = planted(tmp_path, "juggling.py", "(16, 32, 64, 128, 256, 512)", "(16,)")
    done = run("juggling.py", "-d", "cpu", "--picture", nowhere, folder=short)
    assert done.returncode == 1
    assert "no picture: " in done.stderr


def test_arrays_are_reduced_wherever_they_are(home, egl):
    done = run("collectives.py", "-d", "cpu,egl:0")
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.partition(";")[0] for line in done.stdout.splitlines()[-3:]] == [
        f"{op}: right on 2 devices" for op in ("sum", "max", "mean")
    ]


def test_a_reduction_that_is_wrong_is_found(home, tmp_path):
    folder = planted(tmp_path, "collectives.py", "reduce(arrays, op)", 'reduce(arrays, "sum")')
    done = run("collectives.py", "-d", "cpu,egl:0", folder=folder)
    assert done.returncode == 1
    assert "max is wrong on cpu" in done.stderr


def test_a_mesh_is_drawn(home, egl):
    done = drawn("mesh_picture.py", home)
    assert done.stderr == ""
    assert "cpu to egl:0: into" in done.stdout
    assert run("mesh_picture.py", "--picture", "drawing.gif").returncode == 2
    done = run("mesh_picture.py", "-d", "cpu", "--picture", home / "no" / "such" / "f.svg")
    assert done.returncode == 1
    assert "no picture: " in done.stderr


@pytest.mark.parametrize(
    ("devices", "shards"), [("cpu", "auto"), ("cpu,egl:0", "each"), ("cpu:c0,cpu:c1", "each")]
)
def test_a_machine_of_whatever_there_is(devices, shards, home, egl):
    done = run("junk_boot.py", "-d", devices, "--shards", shards, "--scale", 0.01)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"\n328 x 41 by 41 x 41: .* ms, .* GFLOPS, 64 rows checked\n", done.stdout)
    assert all(f"{uri}: " in done.stdout for uri in devices.split(","))
    if shards == "each":
        assert re.search(r" on 2 devices, predicted .* s, at least .* above\)", done.stdout)
        assert "times what was predicted; units done: " in done.stdout


def test_a_large_product_that_is_wrong_is_found(home, tmp_path):
    folder = planted(tmp_path, "junk_boot.py", "ctx.gemm(a, b, c,", "ctx.gemm(a, b + 1, c,")
    done = run("junk_boot.py", "-d", "cpu", "--scale", 0.01, folder=folder)
    assert (done.returncode, done.stdout) == (1, "")
    assert "the product is wrong: row " in done.stderr
    assert run("junk_boot.py", "--scale", 2).returncode == 2


@pytest.mark.unmeasured
@pytest.mark.parametrize(
    ("what", "state"), [("unplug", "lost"), ("hang", "slow"), ("slow", "slow")]
)
def test_a_killed_device_is_named_and_the_product_right(what, state):
    done = run("kill.py", "--what", what)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("right: off by") == 3
    assert f"\nsim:fast: {state}, " in done.stdout
    assert "\nsim:slow: healthy, " in done.stdout
    assert ("sim:fast was lost: " in done.stdout) == (what == "unplug")


def test_an_emulated_card_is_killed(run_alone):
    """In a process of its own, as the other tests' emulated cards are to live."""
    done = run_alone("kill.py", "-d", "cpu,emu:gfx1100", "-n", 64)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("right: off by") == 3
    assert "emu:gfx1100 was lost: " in done.stdout


@pytest.mark.unmeasured
def test_a_death_that_does_not_come_is_told(tmp_path):
    folder = planted(tmp_path, "kill.py", "JOB = 2", "JOB = 2000")
    done = run("kill.py", folder=folder)
    assert done.returncode == 1
    assert done.stderr == "sim:fast: nobody noticed\n"
    folder = planted(tmp_path, "kill.py", "c = ctx.gemm(a, b,", "c = ctx.gemm(b, a,")
    done = run("kill.py", folder=folder)
    assert done.returncode == 1
    assert done.stderr.startswith("the product is wrong: off by")
    assert run("kill.py", "-d", "cpu,egl:0").returncode == 2
    assert run("kill.py", "-d", "cpu,emu:gfx1100", "--what", "slow").returncode == 2


@pytest.mark.unmeasured
def test_training_goes_on_without_a_device():
    done = run("gradients.py", "--steps", 11, "--kill", 4)
    assert (done.returncode, done.stderr) == (0, "")
    assert "step 4: sim:c: " in done.stdout
    assert "\nthe batch is dealt to sim:a, sim:b\n" in done.stdout
    losses = [float(found) for found in re.findall(r"loss (\S+)", done.stdout)]
    assert losses == sorted(losses, reverse=True)
    assert len(losses) == 3
    assert "right: the weights are those of one device" in done.stdout


def test_training_on_real_devices(home, egl):
    done = run("gradients.py", "-d", "cpu,egl:0", "--steps", 2)
    assert (done.returncode, done.stderr) == (0, "")
    assert "right: " in done.stdout
    assert run("gradients.py", "-d", "cpu", "--kill", 1).returncode == 2


@pytest.mark.unmeasured
def test_training_without_a_sum_is_found(tmp_path):
    folder = planted(tmp_path, "gradients.py", 'found], op="sum")', 'found], op="max")')
    done = run("gradients.py", "--steps", 2, "--kill", 0, folder=folder)
    assert done.returncode == 1
    assert "wrong: the weights are off by" in done.stderr


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_missing_device_is_one_line_and_exit_3(script, run_alone):
    done = run_alone(script, "-d", "cpu:7")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("cpu:7: ")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("script", SCRIPTS)
def test_help_tells_the_exit_codes(script):
    done = run(script, "--help")
    assert done.returncode == 0
    assert "exit codes: 0 well" in " ".join(done.stdout.split())
    assert run(script, "--nonsense").returncode == 2
