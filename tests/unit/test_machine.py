"""What the cpu backend reads of a machine, from made-up /proc and /sys trees and from this one."""

import os

import pytest

from sparkle_drv.backends import machine
from sparkle_drv.types import CacheLevel


def tree(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_name_and_vendor(tmp_path):
    tree(tmp_path, {"proc/cpuinfo": "processor\t: 0\nvendor_id\t: Acme\nmodel name\t: Acme 9\n\n"})
    assert machine.name_and_vendor(tmp_path) == ("Acme 9", "Acme")


def test_name_where_cpuinfo_has_none(tmp_path):
    name, vendor = machine.name_and_vendor(tmp_path)
    assert (name, vendor) == (os.uname().machine, "")
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_bytes(b"model name : \xff\xfe")
    assert machine.name_and_vendor(tmp_path)[1] == ""


@pytest.mark.parametrize(
    ("text", "count"),
    [("0", 1), ("0-3", 4), ("0-3,8", 5), ("0,2,4-5", 4), ("", 0), ("garbage", 0)],
)
def test_cpu_lists(text, count):
    assert machine.parse_cpu_list(text) == count


def test_caches(tmp_path):
    base = "sys/devices/system/cpu/cpu0/cache"
    for index, (level, kind, size, shared) in enumerate(
        [(1, "Data", "48K", "0"), (1, "Instruction", "32K", "0"), (3, "Unified", "2M", "0-3"),
         (2, "Unified", "1024", "0,1"), (4, "Data", "what", "0")]
    ):  # fmt: skip
        tree(tmp_path, {
            f"{base}/index{index}/level": f"{level}\n",
            f"{base}/index{index}/type": f"{kind}\n",
            f"{base}/index{index}/size": f"{size}\n",
            f"{base}/index{index}/shared_cpu_list": f"{shared}\n",
        })  # fmt: skip
    assert machine.caches(tmp_path) == (
        CacheLevel(1, 48 << 10, 1), CacheLevel(2, 1024, 2), CacheLevel(3, 2 << 20, 4),
    )  # fmt: skip
    assert machine.caches(tmp_path / "nowhere") == ()


def test_memory_is_the_least_of_all_limits(tmp_path):
    assert machine.memory_nbytes(tmp_path) == 0
    tree(tmp_path, {"proc/meminfo": "MemFree: 1 kB\nMemTotal:       2048 kB\n"})
    assert machine.memory_nbytes(tmp_path) == 2 << 20
    tree(tmp_path, {"sys/fs/cgroup/memory.max": "max\n"})
    assert machine.memory_nbytes(tmp_path) == 2 << 20
    tree(tmp_path, {"sys/fs/cgroup/memory.max": "1048576\n"})
    assert machine.memory_nbytes(tmp_path) == 1 << 20


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({}, None),
        ({"cpu.max": "max 100000"}, None),
        ({"cpu.max": "50000 100000"}, 1),
        ({"cpu.max": "150000 100000"}, 2),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        ({"cpu/cpu.cfs_quota_us": "100000", "cpu/cpu.cfs_period_us": "100000"}, 1),
        ({"cpu.max": "100000 0"}, None),
    ],
)
def test_threads_are_cut_to_the_quota(tmp_path, monkeypatch, files, quota):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))
    tree(tmp_path, {f"sys/fs/cgroup/{name}": text for name, text in files.items()})
    assert machine.thread_count(tmp_path) == (quota or 8)


def test_this_machine():
    name, _ = machine.name_and_vendor()
    assert name
    assert machine.memory_nbytes() > 1 << 20
    assert 1 <= machine.thread_count() <= len(os.sched_getaffinity(0))
    assert [c.level for c in machine.caches()] == sorted(c.level for c in machine.caches())
