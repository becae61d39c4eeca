"""`bench.py transfer`: every way on real devices, planted mistakes, the fit, what is refused.

When this fails, the measured transfer rates are wrong.
"""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from _bench.machine import headroom
from _bench.measure import transfer
from _bench.rows import affine, results
from _console.problems import UsageError

import sparkle_drv as sp

TINY = ("--quick", "--timeout", "0.01")
ANY = {"way": "write", "memory": "device", "nbytes": 4096}


@pytest.mark.unmeasured
def test_every_way_on_every_device(bench, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(affine, "ROUNDS", 10)  # intervals are tested below
    out = tmp_path / "t.json"
    assert bench("transfer", "-d", "cpu,egl:0", "-a", "nbytes=1,4K", *TINY, "--json", out) == 0
    document = results.load(out)
    rows = document["results"]
    assert {(r["device"], r["way"], r["axes"]["memory"], r["axes"]["nbytes"]) for r in rows} == {
        (device, way, memory, n)
        for device in ("cpu", "egl:0")
        for way in transfer.WAYS
        for memory in transfer.MEMORIES
        for n in (1, 4096)
    }
    for row in rows:
        assert row["verified"] is True
        assert row["error"] == {"max_rel_rms": 0.0, "tolerance": 0.0}
        expected = row["axes"]["nbytes"] / row["time_ns"]["median"]
        assert row["gbytes_per_s"] == pytest.approx(expected, rel=1e-3)
        assert row["time_ns"]["of"] == "host"
        assert (row["device_ns"] is not None) == (row["way"] in ("copy", "fill"))
    fits = {(fit["device"], fit["way"], fit["memory"]): fit for fit in document["fits"]}
    assert len(fits) == 2 * len(transfer.WAYS) * len(transfer.MEMORIES)
    for fit in fits.values():
        assert fit["sizes"] == 2
        assert fit["alpha_ns"] > 0
        assert fit["beta_ns_per_byte"] >= 0
    assert "time = alpha + bytes" in capsys.readouterr().out


def test_axes_choose(bench, tmp_path):
    out = tmp_path / "t.json"
    words = ("-a", "way=copy", "-a", "memory=host", "-a", "nbytes=64")
    assert bench("transfer", *words, *TINY, "--json", out) == 0
    document = json.loads(out.read_text())
    assert [row["kernel"] for row in document["results"]] == ["transfer: copy"]
    assert document["fits"] == []  # a line through one point says nothing


@pytest.mark.parametrize(
    ("way", "mistake", "said"),
    [
        ("read", lambda self, at: None, "wrong bytes: target[0]"),
        ("copy", lambda self, at: None, "wrong bytes: target[0]"),
        (
            "write",
            lambda self, at: self.whole.view(self.views[at].offset - 1, self.nbytes).write(
                self.hosts[at]
            ),
            "wrong bytes",
        ),
        (
            "map_write",
            lambda self, at: (
                self.views[at].write(self.hosts[at]),
                self.whole.write(b"\0" * 8, self.views[at].offset + self.nbytes),
            )[2:],
            "guard band behind",
        ),
        (
            "copy",
            lambda self, at: (
                self.views[at].write(self.sources[at].read(np.uint8, self.nbytes)),
                self.sources[at].write(b"\0" * self.nbytes),
            )[2:],
            "input was overwritten",
        ),
    ],
)
def test_a_planted_mistake_has_no_time(bench, monkeypatch, tmp_path, capsys, way, mistake, said):
    monkeypatch.setattr(transfer.Transfer, f"_{way}", mistake)
    words = ("-a", f"way={way}", "-a", "memory=device", "-a", "nbytes=512", *TINY)
    assert bench("transfer", *words, "--json", tmp_path / "t") == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"FAILED transfer: {way}")
    assert said in line
    document = json.loads((tmp_path / "t").read_text())
    assert document["results"][0]["time_ns"] is None
    assert document["fits"] == []


def test_a_device_that_cannot_map(bench, monkeypatch, tmp_path, capsys):
    def refuse(self):
        raise ValueError("this memory cannot be mapped")

    monkeypatch.setattr(sp.Buffer, "map", refuse)
    words = ("-a", "memory=device", "-a", "nbytes=512", *TINY, "--json", tmp_path / "t")
    assert bench("transfer", *words) == 0
    rows = json.loads((tmp_path / "t").read_text())["results"]
    assert {row["way"] for row in rows} == {"write", "read", "copy", "fill"}
    out = capsys.readouterr().out
    assert "# cpu: no map_write of device memory: this memory cannot be mapped" in out


def test_bad_input(bench, capsys):
    for words, code, said in (
        (("-a", "n=4"), 2, "unknown axis; expected one of way, memory, nbytes"),
        (("-a", "way=fly"), 2, "none of write, read"),
        (("-a", "memory=shared"), 2, "none of device, host"),
        (("-a", "nbytes=0"), 2, "below 1"),
        (("-a", "nbytes=1G*1K"), 2, "TiB of memory, cpu has"),
        (("-a", "nbytes=2**63"), 2, "TiB of memory, cpu has"),
        (("-d", "cpu:9"), 3, "cpu:9"),
        (("-d", "no:0"), 3, "no backend"),
    ):
        assert bench("transfer", *words) == code, words
        captured = capsys.readouterr()
        assert captured.out == ""
        (line,) = captured.err.splitlines()
        assert said in line


SIZES = [4096 << (2 * at) for at in range(8)]


def times(alpha, beta, rng, noise=0.02):
    return {n: list((alpha + beta * n) * (1 + noise * rng.standard_normal(40))) for n in SIZES}


def test_the_fit_finds_the_line():
    found = affine.fit(times(8000.0, 0.1, np.random.default_rng(20)))
    assert found.alpha_ns == pytest.approx(8000, rel=0.03)
    assert found.gbytes_per_s == pytest.approx(10, rel=0.03)
    assert found.alpha_interval[0] < found.alpha_ns < found.alpha_interval[1]
    assert found.beta_interval[0] < found.beta_ns_per_byte < found.beta_interval[1]
    assert found.worst < 0.05
    assert found.sizes == 8


def test_one_size_off_the_line_does_not_move_it():
    samples = times(8000.0, 0.1, np.random.default_rng(21))
    samples[SIZES[3]] = [10 * t for t in samples[SIZES[3]]]
    found = affine.fit(samples)
    assert found.alpha_ns == pytest.approx(8000, rel=0.1)
    assert found.gbytes_per_s == pytest.approx(10, rel=0.1)
    assert found.worst == pytest.approx(0.9, abs=0.05)


def test_nothing_is_negative():
    rng = np.random.default_rng(22)
    flat = affine.fit({n: list(500 + rng.random(20)) for n in (1, 2, 4)})
    assert (flat.beta_ns_per_byte, flat.gbytes_per_s) == (0.0, None)
    steep = affine.fit({n: [n**1.2] * 9 for n in (1000, 4000, 16000)})
    assert steep.alpha_ns == 0.0
    assert affine.fit({5: [1.0, 2.0]}) is None


def test_memory_that_is_free(tmp_path):
    """The lesser of the system's word and the group's."""
    assert headroom.available_nbytes(tmp_path) is None
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal: 9 kB\nMemAvailable:    2048 kB\n")
    assert headroom.available_nbytes(tmp_path) == 2 << 20
    group = tmp_path / "sys/fs/cgroup"
    group.mkdir(parents=True)
    for name, text in (("max", "1000000"), ("current", "900000"), ("stat", "inactive_file 50000")):
        (group / f"memory.{name}").write_text(text + "\n")
    assert headroom.available_nbytes(tmp_path) == 150_000
    (group / "memory.max").write_text("max\n")
    assert headroom.available_nbytes(tmp_path) == 2 << 20


def test_what_the_memory_cannot_hold(monkeypatch):
    info = sp.types.DeviceInfo("gpu", "x", "x", "gpu", memory_nbytes=1000)
    monkeypatch.setattr(headroom, "available_nbytes", lambda: 500)
    headroom.check("this", 1000, 500, info)
    with pytest.raises(UsageError, match=r"this needs .* of memory, gpu has"):
        headroom.check("this", 1001, 0, info)
    with pytest.raises(UsageError, match="of the host's memory"):
        headroom.check("this", 0, 501, info)
    shared = sp.types.DeviceInfo("cpu", "x", "x", "cpu", memory_nbytes=1000, shares=("cpu",))
    with pytest.raises(UsageError, match="of the host's memory"):
        headroom.check("this", 400, 101, shared)


def test_runs_that_the_memory_cannot_hold(bench, library, capsys, monkeypatch):
    monkeypatch.setattr(headroom, "available_nbytes", lambda: 8 << 30)
    saxpy = ("--arg", "inout:f32[N]", "--arg", "in:f32[N]", "--arg", "f32=2", "--arg", "u32=N")
    for words in (
        ("run", "saxpy", "-a", "n=4000M"),
        ("run", "gemm", "-a", "size=2M"),
        ("run", "copy_f32", "-a", "n=1000M", "--mode", "pipeline", "-d", "cpu,egl:0"),
        ("kernel", f"{library}:good", *saxpy, "-D", "N=64G"),
    ):
        assert bench(*words) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        (line,) = captured.err.splitlines()
        assert "needs" in line or "does not fit" in line


def test_without_scipy_there_are_rows(bench, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    words = ("-a", "way=write", "-a", "memory=device", "-a", "nbytes=64,128", *TINY)
    assert bench("transfer", *words, "--json", tmp_path / "t") == 0
    document = json.loads((tmp_path / "t").read_text())
    assert [row["verified"] for row in document["results"]] == [True, True]
    assert document["fits"] == []
    assert "# the fit needs scipy" in capsys.readouterr().out
