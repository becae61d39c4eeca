"""What the cpu backend reads of a machine, from made-up /proc and /sys trees and from this one.

When this fails, the plan for a CPU rests on wrong caches, cores or memory nodes.
"""

import os
import subprocess
import sys

import pytest
from where import ROOT

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
    ("text", "cpus"),
    [("0", [0]), ("0-3", [0, 1, 2, 3]), ("0-2,8", [0, 1, 2, 8]), ("0,2,4-5\n", [0, 2, 4, 5]),
     ("", []), ("garbage", []), ("1-x,3", [3])],
)  # fmt: skip
def test_cpu_lists(text, cpus):
    assert machine.cpu_list(text) == cpus


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


@pytest.mark.parametrize(("size", "nbytes"), [("307200K", 300 << 20), ("1024K", 1 << 20)])
def test_the_kit_of_another_l3(size, nbytes):
    assert caches_by_the_kit(size)[-1] == CacheLevel(3, nbytes, os.cpu_count())


def test_the_kit_of_no_caches():
    assert caches_by_the_kit("none") == ()


def caches_by_the_kit(size):
    """What a child process reads under tests/backends/other_l3.sh."""
    why = subprocess.run(["unshare", "--mount", "true"], capture_output=True, text=True).stderr
    if why:
        pytest.skip(f"no mount namespaces: {why.strip()}")
    code = "from sparkle_drv.backends import machine; print(repr(machine.caches()))"
    words = ["sh", ROOT / "tests/backends/other_l3.sh", size, sys.executable, "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return eval(done.stdout)


def test_memory_is_the_least_of_all_limits(tmp_path):
    assert machine.memory_nbytes(tmp_path) == 0
    tree(tmp_path, {"proc/meminfo": "MemFree: 1 kB\nMemTotal:       2048 kB\n"})
    assert machine.memory_nbytes(tmp_path) == 2 << 20
    tree(tmp_path, {"sys/fs/cgroup/memory.max": "max\n"})
    assert machine.memory_nbytes(tmp_path) == 2 << 20
    tree(tmp_path, {"sys/fs/cgroup/memory.max": "1048576\n"})
    assert machine.memory_nbytes(tmp_path) == 1 << 20


V2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate"
V1 = "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct"
HYBRID = "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw"
# A container without a cgroup namespace: its own group is the top of what is mounted.
BOUND = "50 49 0:29 /docker/c0ffee /sys/fs/cgroup/cpu ro - cgroup cgroup ro,cpu"


@pytest.mark.parametrize(
    ("own", "mounts", "limits", "threads"),
    [
        # nothing in /proc: the usual places
        ("", [], {}, 8),
        ("", [], {"cpu.max": "max 100000"}, 8),
        ("", [], {"cpu.max": "50000 100000"}, 1),
        ("", [], {"cpu.max": "150000 100000"}, 2),
        ("", [], {"cpu.max": "1000000 100000"}, 8),
        ("", [], {"cpu.max": "garbage"}, 8),
        ("", [], {"cpu.max": "100000 0"}, 8),
        ("", [], {"cpu.max": "1 100000"}, 1),
        ("", [], {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 8),
        ("", [], {"cpu/cpu.cfs_quota_us": "100000", "cpu/cpu.cfs_period_us": "100000"}, 1),
        # version 2: the process's own group, and every group around it
        ("0::/a/b", [V2], {"a/b/cpu.max": "300000 100000"}, 3),
        ("0::/a/b", [V2], {"a/cpu.max": "200000 100000"}, 2),
        ("0::/a/b", [V2], {"a/b/cpu.max": "max 100000", "a/cpu.max": "200000 100000"}, 2),
        ("0::/a/b", [V2], {"a/b/cpu.max": "300000 100000", "a/cpu.max": "200000 100000"}, 2),
        ("0::/a/b", [V2], {"a/b/cpu.max": "100000 100000", "a/cpu.max": "200000 100000"}, 1),
        ("0::/a/b", [V2], {"a/c/cpu.max": "100000 100000"}, 8),
        ("0::/", [V2], {"cpu.max": "250000 100000"}, 3),
        ("0::/../../x", [V2], {"cpu.max": "400000 100000"}, 4),
        # version 1, and beside it an empty version 2
        (
            "4:cpu,cpuacct:/job\n1:name=systemd:/job\n0::/",
            [V1, HYBRID],
            {"cpu,cpuacct/job/cpu.cfs_quota_us": "500000",
             "cpu,cpuacct/job/cpu.cfs_period_us": "100000"},
            5,
        ),
        ("4:cpuset:/job", [V1], {"cpu,cpuacct/job/cpu.cfs_quota_us": "100000"}, 8),
        (
            "4:cpu:/docker/c0ffee/job",
            [BOUND],
            {"cpu/job/cpu.cfs_quota_us": "200000", "cpu/job/cpu.cfs_period_us": "100000"},
            2,
        ),
        (
            "4:cpu:/docker/c0ffee",
            [BOUND, "torn"],
            {"cpu/cpu.cfs_quota_us": "350000", "cpu/cpu.cfs_period_us": "100000"},
            4,
        ),
        # a path of which nothing is mounted here
        ("4:cpu:/docker/c0ffee2", [BOUND], {"cpu/cpu.cfs_quota_us": "-1"}, 8),
    ],
)  # fmt: skip
def test_threads_are_cut_to_what_the_cgroups_grant(
    tmp_path, monkeypatch, own, mounts, limits, threads
):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))
    tree(tmp_path, {f"sys/fs/cgroup/{name}": text for name, text in limits.items()})
    if own:
        tree(
            tmp_path, {"proc/self/cgroup": own, "proc/self/mountinfo": "\n".join([*mounts, "31 x"])}
        )
    assert machine.thread_count(tmp_path) == threads


def test_memory_of_an_enclosing_group(tmp_path):
    tree(tmp_path, {"proc/meminfo": "MemTotal: 8192 kB\n", "proc/self/cgroup": "0::/a/b\n",
                    "proc/self/mountinfo": V2, "sys/fs/cgroup/a/b/memory.max": "max\n",
                    "sys/fs/cgroup/a/memory.max": "4194304\n"})  # fmt: skip
    assert machine.memory_nbytes(tmp_path) == 4 << 20


def numa(root, **lists):
    return tree(root, {f"sys/devices/system/node/{n}/cpulist": text for n, text in lists.items()})


def test_nodes_are_those_with_cpus_of_ours(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 9, 30})
    assert machine.nodes(tmp_path) == ()
    numa(tmp_path, node0="0-7\n", node10="24-31\n", node2="8-15\n", node3="\n", node4="16-23\n")
    tree(tmp_path, {"sys/devices/system/node/online": "0-4\n"})
    assert machine.nodes(tmp_path) == (
        machine.NumaNode(0, (0, 1, 2)), machine.NumaNode(2, (9,)), machine.NumaNode(10, (30,)),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("cpus", "threads", "where"),
    [
        ((4, 4), 8, [0, 0, 0, 0, 1, 1, 1, 1]),
        ((4, 4), 3, [0, 0, 1]),
        ((4, 4), 1, [0]),
        ((6, 2), 4, [0, 0, 0, 1]),
        ((1, 1, 1), 7, [0, 0, 1, 1, 1, 2, 2]),
        ((2, 2, 4), 4, [0, 1, 2, 2]),
        ((5,), 2, [0, 0]),
    ],
)
def test_threads_are_spread_as_the_nodes_have_cpus(cpus, threads, where):
    numbers = iter(range(100))
    nodes = [
        machine.NumaNode(i, tuple(next(numbers) for _ in range(n))) for i, n in enumerate(cpus)
    ]
    assert list(machine.spread(nodes, threads)) == where


def test_this_machine():
    name, _ = machine.name_and_vendor()
    assert name
    assert machine.memory_nbytes() > 1 << 20
    assert 1 <= machine.thread_count() <= len(os.sched_getaffinity(0))
    found = machine.nodes()
    assert {cpu for node in found for cpu in node.cpus} <= os.sched_getaffinity(0)
    assert [c.level for c in machine.caches()] == sorted(c.level for c in machine.caches())
