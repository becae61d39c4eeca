"""Users' kernels that crash, leave, hang or never end: their own rows fail, and the run goes on.

When this fails, a user's crashing kernel takes the whole run with it.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from _bench.jobs import user_kernel
from _bench.measure import child, devices
from _bench.measure.engine import Settings
from where import ROOT

C = """
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
struct args { float *y; const float *x; };
#define KERNEL(name) void name(const void *v, const uint32_t g[3], const uint32_t s[3])
KERNEL(copy)
{
    const struct args *p = v;
    for (uint32_t i = g[0] * s[0]; i < (g[0] + 1) * s[0]; i++) p->y[i] = p->x[i];
}
KERNEL(wild) { (void)g; (void)s; (void)v; *(volatile int *)8 = 1; }
KERNEL(leaves) { (void)g; (void)s; (void)v; _Exit(3); }
KERNEL(endless) { volatile int on = 1; (void)g; (void)s; (void)v; while (on) { } }
KERNEL(prints) { copy(v, g, s); puts("from the kernel"); fflush(stdout); }
static int launches;
KERNEL(late) { copy(v, g, s); if (g[0] == 0 && launches++ == 4) raise(SIGSEGV); }
#ifdef STALLS
__attribute__((constructor)) static void stall(void) { volatile int on = 1; while (on) { } }
#endif
"""
ARGS = ("--arg", "out:f32[256]", "--arg", "in:f32[256]", "--groups", "4", "--group-size", "64")
QUICK = ("--quick", "--timeout", "0.05", "--launch-timeout", "0.5")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "k.c").write_text(C)
    (tmp_path / "ref.py").write_text("def f(x):\n    return x\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def rows(folder):
    return json.loads((folder / "o.json").read_text())["results"]


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("leaves", "ended the process with status 3"),
        ("late", "crashed: SIGSEGV"),
    ],
)
def test_one_that_fails(bench, folder, capsys, entry, said):
    words = (*ARGS, *QUICK, "--ref", "ref.py:f", "--json", "o.json")
    assert bench("kernel", f"k.c:{entry}", *words) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"FAILED k.c:{entry} hot: {said}")
    (row,) = rows(folder)
    assert row["reason"].startswith(said)
    assert (row["verified"], row["time_ns"]) == (False, None)


def test_rivals_that_fail_leave_the_others_their_times(bench, folder, capsys):
    rivals = [word for e in ("wild", "endless", "copy") for word in ("--vs", f"k.c:{e}")]
    words = (*ARGS, *QUICK, "--ref", "ref.py:f", "--json", "o.json", "--csv", "o.csv")
    assert bench("kernel", "k.c:copy", *rivals, *words) == 1
    found = rows(folder)
    assert [row["verified"] for row in found] == [True, False, False, True]
    assert found[1]["reason"] == "crashed: SIGSEGV"
    assert found[2]["reason"].startswith("hung: ")
    assert found[3]["versus"]["ratio"] > 0
    assert "crashed: SIGSEGV" in (folder / "o.csv").read_text()
    crashed, endless = capsys.readouterr().err.splitlines()
    assert crashed == "FAILED k.c:wild hot: crashed: SIGSEGV"
    assert "dispatch endless(" in endless  # what was running, and how to wait longer
    assert "0.5 s were given (--launch-timeout or --timeout raise that)" in endless


def test_the_rows_after_a_crash_are_measured(bench, folder):
    (folder / "k.c").write_text(C.replace("*p = v;", "*p = v; if (AT == 1) *(int *)8 = 1;"))
    words = (*ARGS, *QUICK, "-D", "AT=1,0", "--ref", "ref.py:f", "--json", "o.json")
    assert bench("kernel", "k.c:copy", *words) == 1
    assert [(row["axes"]["AT"], row["verified"]) for row in rows(folder)] == [
        *((1, False), (0, True))
    ]


def test_one_that_hangs_while_it_is_loaded(bench, folder, monkeypatch, capsys):
    """No fence watches over a constructor: the parent does."""
    monkeypatch.setattr(child, "LOAD_S", 0.5)
    monkeypatch.setattr(child, "LEAVE_S", 0.2)  # it does not heed SIGTERM
    words = (*ARGS, *QUICK, "-D", "STALLS=1", "--ref", "ref.py:f")
    assert bench("kernel", "k.c:copy", *words) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("hung: no answer in 0.5 s")


def test_what_a_kernel_prints_is_not_in_the_table(folder, home):
    words = ("kernel", "k.c:prints", *ARGS, *QUICK, "--ref", "ref.py:f", "--csv", "/dev/stdout")
    done = tool(words, home)
    out, err = done.communicate(timeout=60)
    assert done.returncode == 0
    assert "from the kernel" in err
    assert "from the kernel" not in out


def tool(words, home):
    return subprocess.Popen(
        [sys.executable, ROOT / "tools/bench.py", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "SPARKLE_HOME": str(home)},
    )


def children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_the_child_ends_with_its_parent(folder, home, how):
    """Ctrl-C keeps the rows that are complete; and no kernel runs on when the tool is killed."""
    (folder / "k.c").write_text(C.replace("*p = v;", "*p = v; volatile int on = AT; while (on) {}"))
    words = (*ARGS, "--quick", "-D", "AT=0,1", "--ref", "ref.py:f", "--json", "o.json")
    running = tool(("kernel", "k.c:copy", *words, "--timeout", "0.05"), home)
    begun = time.monotonic()
    while not (folder / "o.json").exists() or not rows(folder):
        assert time.monotonic() - begun < 60
        time.sleep(0.02)
    time.sleep(0.3)  # the kernel that never ends has begun
    (measures,) = children(running.pid)
    running.send_signal(how)
    assert running.wait(20) == (1 if how == signal.SIGINT else -how)
    while is_there(measures):
        assert time.monotonic() - begun < 90
        time.sleep(0.02)
    (row,) = rows(folder)
    assert row["verified"] is True
    _, err = running.communicate()
    assert ("interrupted: 1 rows are complete" in err) == (how == signal.SIGINT)


def test_a_child_that_vanishes_between_two_rows(folder):
    """The next row has a new one."""
    spec = user_kernel.Spec(folder / "k.c", "copy", ARGS[1:4:2], "4", "64", reference="ref.py:f")
    with devices.opened("cpu") as device:
        info = device.info
    job = user_kernel.make(spec, {})
    with child.started("cpu", info, Settings(1, timeout_s=0.02), 0.05) as one:
        assert one.rows(job, "hot")[0].verified
        first = one._process.pid
        os.kill(first, signal.SIGKILL)
        assert one.rows(job, "hot")[0].verified
        assert one._process.pid != first


def test_a_job_survives_its_way_to_the_child(folder):
    spec = user_kernel.Spec(folder / "k.c", "copy", ARGS[1:4:2], "4", "64", reference="ref.py:f")
    job = pickle.loads(pickle.dumps(user_kernel.make(spec, {})))
    assert job.oracle({"arg1": 5}) == {"arg0": 5}
