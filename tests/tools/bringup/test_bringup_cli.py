"""bringup.py as a program: options, what it writes, exit codes.

When this fails, bring-up ends with the wrong exit code, or without its file.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import forked
import pytest
from _bringup.benches.card import Emulated
from _bringup.rungs import patterns
from where import ROOT

from sparkle_drv.lowlevel import nodes

TOOL = ROOT / "tools" / "bringup.py"
RESULT = {"name", "status", "time_s", "ioctl", "errno", "causes", "next"}


@pytest.fixture
def bringup(capsys):
    """bringup(*words) -> (exit code, stdout, stderr)."""
    import bringup as tool

    def run(*words):
        try:
            code = tool.main([str(word) for word in words])
        except SystemExit as leave:
            code = int(leave.code or 0)
        return (code, *capsys.readouterr())

    return run


@pytest.fixture(scope="module")
def process():
    """process(*words) -> (exit code, stdout, stderr) of a process of its own."""
    with forked.Server("bringup", "sparkle_drv.testing.emu") as python:

        def run(*words):
            done = python.run(TOOL, *words)
            return done.returncode, done.stdout, done.stderr

        yield run


def test_a_whole_climb_as_a_process(process, tmp_path):
    report = tmp_path / "o.json"
    code, out, err = process("ladder", "-d", "emu:gfx1036", "--allow-hang", "--json", report)
    assert (code, err) == (0, "")
    told = json.loads(report.read_text())
    assert (told["schema"], told["device"]) == (1, "emu:gfx1036")
    assert len(told["rungs"]) >= 28
    assert {rung["status"] for rung in told["rungs"]} == {"PASS"}
    assert all(set(rung) >= RESULT for rung in told["rungs"])
    assert "not yet on silicon" in out
    assert told["verified"] in out


def test_only_from_to_and_json_on_stdout(process):
    code, out, err = process(
        "ladder", "-d", "cpu", "--from", "buffers", "--to", "memory", "--json", "-"
    )
    assert code == 0
    assert [r["name"] for r in json.loads(out)["rungs"]] == ["buffers", "transfer", "memory"]
    assert "3 PASS" in err


@pytest.mark.skipif(bool(nodes.listed()), reason="there is a render node here")
def test_a_machine_without_a_gpu(process, tmp_path):
    code, out, _ = process("--bundle", tmp_path / "b.tar.gz", "--json", tmp_path / "o.json")
    rungs = json.loads((tmp_path / "o.json").read_text())["rungs"]
    assert code == 1
    assert [r["status"] for r in rungs] == ["FAIL"] + ["BLOCKED"] * (len(rungs) - 1)
    assert "/dev/dri" in rungs[0]["text"]
    assert rungs[0]["causes"]
    assert rungs[0]["next"] in out
    assert "next:" in out
    assert (tmp_path / "b.tar.gz").stat().st_size


def test_the_list(bringup):
    code, out, _ = bringup("ladder", "-d", "emu:gfx1100", "--list", "--allow-hang")
    assert code == 0
    assert "hang-endless" in out
    assert "hang-endless" not in bringup("ladder", "-d", "emu:gfx1100", "--list")[1]
    assert bringup("-d", "cpu", "--list")[1].splitlines()[0].split()[0] == "open"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["ladder", "--only", "nonsense"], 2, "no rung 'nonsense'"),
        (["ladder", "--from", "store", "--to", "node"], 2, "no rung from"),
        (["ladder", "--only", "hang-endless"], 2, "--allow-hang"),
        (["ladder", "--timeout", "-1"], 2, "seconds"),
        (["ladder", "--timeout", "soon"], 2, "expected a number of seconds"),
        (["ladder", "-d", "emu:gfx900"], 3, "emu:gfx900"),
        (["ladder", "-d", "emu:gfx1100", "--only", "node", "--json", "/nonsense/o"], 1, "nonsense"),
        (["info", "-d", "amdgpu:77"], 1, ""),
        (["info", "-d", "nosuch:0"], 3, "nosuch"),
        (["ladder", "-d", "emu", "--only", ""], 2, "no rung ''"),
        (
            ["ladder", "-d", "emu", "--only", "node", "--to", "node"],
            2,
            "--only: expected neither --from nor --to",
        ),
        (["ladder", "-d", "emu", "--record-memory"], 2, "--record FILE"),
        (["ladder", "-d", "emu", "--record", "/nonsense/r"], 1, "nonsense"),
        (["ladder", "-d", "emu", "--only", "node", "--bundle", "/tmp"], 1, "directory"),
        (["ladder", "-d", "amdgpu:x"], 3, "amdgpu:x"),
        (["--replay", "/dev/null", "-d", "cpu"], 2, "amdgpu:N or emu:CHIP"),
        (["mem", "--size", "²"], 2, "expected a size"),
        (["mem", "-d", "cpu"], 2, "ladder"),
        (["mem", "-d", "emu:gfx1100", "--heap", "x"], 2, "no heap"),
        (["mem", "-d", "emu:gfx1100", "--passes", "0"], 2, "--passes"),
        (["mem", "--size", "0"], 2, "expected a size"),
        (["mem", "--size", "3X"], 2, "expected a size"),
    ],
)
def test_what_cannot_be_used(bringup, words, code, said):
    got, out, err = bringup(*words)
    assert (got, "Traceback" in err) == (code, False), (out, err)
    assert said in err


def test_help_tells_the_exit_codes(bringup):
    for words in (["--help"], ["ladder", "--help"], ["mem", "--help"], ["info", "--help"]):
        code, out, _ = bringup(*words)
        assert code == 0
        assert "exit codes:" in out


def test_mem(bringup, tmp_path):
    words = ["mem", "-d", "emu:gfx1100", "--heap", "gtt,visible", "--size", "300K", "--passes", 2]
    code, out, _ = bringup(*words, "--json", tmp_path / "m.json")
    told = json.loads((tmp_path / "m.json").read_text())
    assert code == 0
    assert out.count("PASS") == 2
    assert [heap["heap"] for heap in told["heaps"]] == ["gtt", "visible"]
    assert told["heaps"][0]["nbytes"] == 300 << 10


def test_mem_that_is_bad(bringup, monkeypatch):
    bad = patterns.Bad("walking ones", 0x40, 1, 3, 2, 1)
    monkeypatch.setattr(patterns, "sweep", lambda words, **more: bad)
    code, out, _ = bringup("mem", "-d", "emu:gfx1100", "--heap", "gtt", "--size", "8K")
    assert code == 1
    assert "offset 0x40" in out
    assert "0x00000002" in out


def test_info(bringup):
    code, out, _ = bringup("info", "-d", "emu:gfx1036")
    assert code == 0
    assert "0x164e" in out
    code, out, _ = bringup("info", "-d", "cpu", "--json", "-")
    assert json.loads(out)["info"]["backend"] == "cpu"


def test_a_failure_is_told_with_causes(bringup, monkeypatch):
    def open_(self):
        from sparkle_drv.lowlevel import raw

        raise raw.IoctlError(13, "open", "/dev/dri/renderD128")

    monkeypatch.setattr(Emulated, "open", open_)
    code, out, _ = bringup("ladder", "-d", "emu:gfx1100", "--to", "caps")
    assert code == 1
    assert "ioctl  open: EACCES" in out
    assert "usermod" in out
    assert "2 BLOCKED" in out


def test_a_climb_is_recorded_and_done_again(process, tmp_path):
    file = tmp_path / "run.rec"
    few = ("--only", "version,store,sdma-copy")
    code, out, _ = process("-d", "emu:gfx1036", *few, "--record", file, "--record-memory")
    assert code == 0, out
    code, out, _ = process("--replay", file, "-d", "emu:gfx1036")
    assert (code, out.splitlines()[-1]) == (0, "as recorded")
    code, out, _ = process("--replay", file, "-d", "emu:gfx1100")
    assert code == 1
    assert "as recorded" in out.splitlines()[-1]


def test_a_recording_that_is_not_written_is_told(bringup):
    words = ("-d", "emu:gfx1036", "--only", "node,version", "--record", "/dev/full")
    code, out, err = bringup(*words)
    assert (code, "2 PASS" in out) == (1, True)
    assert "No space left" in err


def test_a_report_that_is_not_written_does_not_cost_the_bundle(bringup, tmp_path):
    bundle = tmp_path / "b.tar.gz"
    words = ("-d", "cpu", "--only", "open", "--json", "/dev/full", "--bundle", bundle)
    code, _, err = bringup(*words)
    assert (code, bundle.stat().st_size > 0) == (1, True)
    assert "/dev/full: No space left" in err


def test_ctrl_c_keeps_what_was_climbed(tmp_path):
    report = tmp_path / "o.json"
    words = ("ladder", "-d", "emu:gfx1036", "--allow-hang", "--json", report)
    with subprocess.Popen(
        [sys.executable, TOOL, *words], stdout=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:  # fmt: skip
        assert process.stdout is not None
        while not process.stdout.readline().startswith("PASS"):
            pass
        [climber] = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.send_signal(signal.SIGINT)
        out = process.communicate(timeout=60)[0]
    rungs = json.loads(report.read_text())["rungs"]
    assert process.returncode == 1
    assert not Path(f"/proc/{climber}").exists()
    assert len(rungs) >= 28
    assert (rungs[0]["status"], rungs[-1]["status"]) == ("PASS", "BLOCKED")
    assert "not run: interrupted" in out


def test_a_device_without_ioctls_is_not_recorded(bringup, tmp_path):
    code, _, err = bringup("ladder", "-d", "cpu", "--record", tmp_path / "x")
    assert code == 2
    assert "expected a device that this package drives by ioctls" in err
