"""The columns of noise: what disturbed a row, from files of the system as they may be.

When this fails, a disturbed row looks like a quiet one.
"""

from __future__ import annotations

import csv

import pytest
from _bench.machine import noise
from _bench.rows import results, stats

import sparkle_drv as sp


@pytest.fixture
def system(tmp_path):
    """put(steal ticks, throttled periods): /proc and /sys below a folder."""

    def put(steal, throttled, group="0::/mine", at="sys/fs/cgroup/mine"):
        (tmp_path / "proc/self").mkdir(parents=True, exist_ok=True)
        (tmp_path / at).mkdir(parents=True, exist_ok=True)
        (tmp_path / "proc/stat").write_text(f"cpu  1 2 3 4 5 6 7 {steal} 0 0\ncpu0 1\n")
        (tmp_path / "proc/self/cgroup").write_text(f"3:cpuset:/x\n{group}\n")
        (tmp_path / at / "cpu.stat").write_text(f"nr_periods 9\nnr_throttled {throttled}\n")
        return tmp_path

    return put


@pytest.mark.parametrize(
    ("group", "at"),
    [("0::/mine", "sys/fs/cgroup/mine"), ("4:cpu,cpuacct:/a/b", "sys/fs/cgroup/cpu/a/b")],
)
def test_what_happened_since(system, group, at):
    root = system(100, 3, group, at)
    clocks = iter([3000.0, 2000.0])
    watch = noise.Watch(lambda: {"load_percent": 1.0, "frequency_mhz": next(clocks)}, root)
    system(1_000_000, 5, group, at)
    found = watch.noise()
    assert found.steal == 1.0  # far more than there was time for
    assert found.throttled == 2
    assert found.mhz == 2500
    assert found.switches >= 0


@pytest.mark.parametrize("text", ["", "cpu 1 2", "cpu  1 2 3 4 5 6 7 x", "\xff"])
def test_what_the_system_does_not_tell(tmp_path, text):
    """No /proc, an older kernel's, a sandbox's; a device that is lost."""

    def lost():
        raise sp.DeviceLost("gone")

    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/stat").write_text(text, encoding="latin-1")
    found = noise.Watch(lost, tmp_path).noise()
    assert (found.steal, found.throttled, found.mhz) == (None, None, None)
    assert found.cells()[0] == "-"


def test_spread_counts_a_second_mode_but_no_tail():
    assert stats.spread([100.0] * 99 + [1e6]) == 0
    assert stats.spread([100.0, 200.0] * 50) == pytest.approx(2 / 3)


def test_the_files_have_them(bench, tmp_path):
    out, table = tmp_path / "o.json", tmp_path / "o.csv"
    words = ("--timeout", "0.05", "--json", out, "--csv", table)
    assert bench("run", "copy_f32", "-a", "n=64K", *words) == 0
    (row,) = results.load(out)["results"]
    assert set(row["noise"]) == set(noise.CSV_COLUMNS)
    assert row["noise"]["noise_percent"] >= 0
    with open(table) as file:
        (line,) = csv.DictReader(file)
    assert float(line["noise_percent"]) == row["noise"]["noise_percent"]
