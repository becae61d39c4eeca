"""Devices on named cores: what their URIs mean, and that their threads compute nowhere else.

When this fails, work on named cores disturbs the cores that the user wanted to keep free.
"""

from __future__ import annotations

import ctypes
import os
import time
from pathlib import Path

import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv.backends import machine
from sparkle_drv.backends.base import Settings
from sparkle_drv.backends.cpu.backend import ISAS, CpuBackend, _isa_of
from sparkle_drv.backends.cpu.cores import Named, named
from sparkle_drv.backends.rates import identity
from sparkle_drv.core.device import Device
from sparkle_drv.sched.decide import place_graph
from sparkle_drv.sched.journal import explain
from sparkle_drv.testing import suite

OURS = sorted(os.sched_getaffinity(0))
TWO = [OURS[0], OURS[-1]]
needs_two = pytest.mark.skipif(len(OURS) < 2, reason="needs two cores, this process may use one")


@pytest.fixture(autouse=True)
def no_variables(monkeypatch):
    monkeypatch.delenv("SPARKLE_THREADS", raising=False)
    monkeypatch.delenv("SPARKLE_CPU_ISA", raising=False)


def threads_now() -> set[int]:
    return {int(task.name) for task in Path("/proc/self/task").iterdir()}


def where(threads) -> list[set[int]]:
    """The affinity masks of threads; those that ended meanwhile have none."""
    found = []
    for thread in threads:
        try:
            found.append(os.sched_getaffinity(thread))
        except ProcessLookupError:
            continue
    return found


def soon(true) -> bool:
    """A thread pins itself when it first runs, which may be after the end of a pool's job."""
    until = time.monotonic() + 20
    while not true() and time.monotonic() < until:
        time.sleep(0.005)
    return true()


def numa(root: Path, *lists: str) -> Path:
    for number, text in enumerate(lists):
        path = root / f"sys/devices/system/node/node{number}/cpulist"
        path.parent.mkdir(parents=True)
        path.write_text(f"{text}\n")
    return root


# URIs


@pytest.mark.parametrize("form", ["c{0}", "c0{0}", "c{0}-{0}"])
def test_the_canonical_form_and_what_the_device_tells(form):
    core = OURS[-1]
    with sp.open("cpu:" + form.format(core)) as dev:
        assert dev.uri == dev.info.uri == f"cpu:c{core}"
        assert (dev.info.compute_units, dev.info.shares) == (1, (f"cpu:{core}",))
        assert (dev.info.backend, dev.info.kind, dev.info.isa) == ("cpu", "cpu", best())


def best() -> str:
    with sp.open("cpu") as dev:
        return dev.info.isa


def test_a_device_may_be_in_a_context_once():
    with pytest.raises(ValueError, match="expected each device once"):
        sp.init([f"cpu:c{OURS[0]}", f"cpu:c{OURS[0]}-{OURS[0]}"])


def test_a_range(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {2, 3, 4, 5, 8})
    found = named("cpu:c2-5/avx2")
    assert (found.uri, found.cores, found.isa) == ("cpu:c2-5/avx2", (2, 3, 4, 5), "avx2")
    assert (found.threads(0), found.threads(3)) == (4, 3)
    for uri in ("cpu:c1", "cpu:c4-8", "cpu:c2-999999"):
        with pytest.raises(sp.DeviceNotFound, match=rf"{uri}: .*\(2-5,8\), got also "):
            named(uri)


def test_cores_of_a_node_are_those_that_the_mask_has(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1, 2, 5})
    root = numa(tmp_path, "0-1", "2-5", "")
    assert named("cpu:node1", root).cores == (2, 5)
    assert named("cpu:node01/ref", root).uri == "cpu:node1/ref"
    assert [node.cpus for node in named("cpu:c1-2", root).nodes] == [(1,), (2,)]
    for uri in ("cpu:node2", "cpu:node7"):
        with pytest.raises(sp.DeviceNotFound, match=rf"{uri}: expected a NUMA node .*\(0, 1\)"):
            named(uri, root)
    with pytest.raises(sp.DeviceNotFound, match=r"cpu:node0: .*\(none\), got 0"):
        named("cpu:node0", tmp_path / "nothing")


@pytest.mark.parametrize("rest", ["1", "c", "c-1", "c0-", "c0/", "c1234567", "node", "n0", "c0-1-2",
                                  "C0", "c\N{ARABIC-INDIC DIGIT ONE}",
                                  "c0/avx2/ref", "node-1", "c0#1"])  # fmt: skip
def test_uris_of_another_form(rest):
    with pytest.raises(sp.DeviceNotFound, match=rf"cpu:{rest}: expected 'cpu' .* 'cpu:c0'"):
        sp.open(f"cpu:{rest}")


def test_cores_that_are_not_there():
    with pytest.raises(sp.DeviceNotFound, match=r"cpu:c999999: expected cores .*, got also 999999"):
        sp.open("cpu:c999999")
    with pytest.raises(ValueError, match="cpu:c5-2: expected a range that ascends, got 5-2"):
        sp.open("cpu:c5-2")


def test_instruction_sets_by_uri(monkeypatch):
    core = OURS[0]
    monkeypatch.setenv("SPARKLE_CPU_ISA", best())
    with sp.open(f"cpu:c{core}/ref") as dev, sp.open(f"cpu:c{core}") as other:
        assert (dev.uri, dev.info.isa) == (f"cpu:c{core}/ref", "ref")
        assert dev.kernel("vecadd_f32").resources.isa == "ref"
        assert other.info.isa == best()
    with pytest.raises(ValueError, match=rf"cpu:c{core}/sse9: .*ref.*, got 'sse9'"):
        sp.open(f"cpu:c{core}/sse9")


def test_instruction_sets_that_this_cpu_lacks():
    have = sp.devices()[-1].features if sp.devices()[-1].kind == "cpu" else ("ref",)
    lacking = next((isa for isa in ISAS.values() if isa not in have), "neon")
    with pytest.raises(sp.DeviceNotFound, match=f"/{lacking}: expected an instruction set of this"):
        _isa_of(named(f"cpu:c{OURS[0]}/{lacking}"))


def test_threads_may_be_fewer_than_cores_and_not_more(monkeypatch):
    uri = f"cpu:c{OURS[0]}"
    with pytest.raises(ValueError, match=f"threads: expected at most 1 on {uri}, .* got 2"):
        sp.open(uri, threads=2)
    monkeypatch.setenv("SPARKLE_THREADS", "3")
    with pytest.raises(ValueError, match=f"threads: expected at most 1 on {uri}, .* got 3"):
        sp.open(uri)
    with sp.open(uri, threads=1) as dev:
        assert dev.info.compute_units == 1


def test_discovery_lists_one_cpu_device():
    assert [found.uri for found in sp.discover() if found.backend == "cpu"] == ["cpu"]


def test_plans_are_kept_by_cores():
    plain = CpuBackend(Settings(home="")).info
    a = CpuBackend.open(f"cpu:c{TWO[0]}", Settings(home="")).info
    assert f"cpu:{TWO[0]}" in identity(a)
    assert "cpu:" not in identity(plain)


# Threads


def everything(dev) -> None:
    """A grid, a routine, a launch of one group, a fill and copies, on an idle queue each time."""
    x = np.ones(1 << 18, np.float32)
    assert sp.ops.reduce(dev, x) == x.size
    a = np.eye(200, dtype=np.float32)
    assert np.array_equal(sp.ops.gemm(dev, a, a), a)
    arr, out = dev.array(x), dev.empty(x.shape, np.float32)
    add = dev.kernel("vecadd_f32")
    for count in (1, x.size):
        dev.default_queue.launch(add, out, arr, arr, count, groups=-(-count // 256)).wait()
        assert (out.numpy()[:count] == 2).all()


def test_threads_stay_on_their_cores():
    """Of both devices, from one caller whose own mask nobody changes."""
    for core in TWO:
        before = threads_now()
        with sp.open(f"cpu:c{core}") as dev:
            everything(dev)
            mine = where(threads_now() - before)
            assert mine, "the queue's worker computes"
            assert all(mask == {core} for mask in mine)
    assert os.sched_getaffinity(0) == set(OURS)


@needs_two
def test_a_pool_on_several_cores(tmp_path):
    """The pool's workers and the queue's stay within the cores, also over two nodes."""
    root = numa(tmp_path, str(OURS[0]), str(OURS[1]))
    if OURS[1] != OURS[0] + 1:
        pytest.skip("needs two cores that are neighbours")
    which = named(f"cpu:c{OURS[0]}-{OURS[1]}", root)
    before = threads_now()
    with Device(which.uri, CpuBackend(Settings(home=""), root, which)) as dev:
        assert dev.info.compute_units == 2
        everything(dev)
        allowed = [{OURS[0], OURS[1]}, {OURS[1]}]  # the queue's worker; the pool's on its node
        assert soon(lambda: sorted(where(threads_now() - before), key=len, reverse=True) == allowed)


@needs_two
def test_nothing_runs_in_the_caller():
    """The caller's own clock shows that it computes no routine, as that of "cpu" does."""
    a = np.ones((1024, 1024), np.float32)
    out = np.empty_like(a)
    with sp.open(f"cpu:c{TWO[0]}") as dev:
        sp.ops.gemm(dev, a, a, out)
        mine, everyone = time.thread_time(), time.process_time()
        for _ in range(3):
            sp.ops.gemm(dev, a, a, out)
        mine, everyone = time.thread_time() - mine, time.process_time() - everyone
    assert (out == 1024).all()
    assert mine < everyone / 2, "the worker computes, the caller waits"


@needs_two
def test_two_devices_compute_at_once():
    """Launches from one thread: their times on the two devices overlap."""
    n, fences, busy = 1 << 22, [], []
    with sp.open(f"cpu:c{TWO[0]}") as one, sp.open(f"cpu:c{TWO[1]}") as two:
        for dev in (one, two):
            x, y = dev.array(np.ones(n, np.float32)), dev.empty((n,), np.float32)
            queue, add = dev.queue(timing=True), dev.kernel("vecadd_f32")
            queue.launch(add, y, x, x, n, groups=n // 256).wait()
            busy.append((queue, add, y, x))
        for queue, add, y, x in busy:
            fences.append([queue.launch(add, y, x, x, n, groups=n // 256) for _ in range(20)])
        spans = []
        for of in fences:
            of[-1].wait()
            times = [f.queue._backend.times(f.queue._handle, f.value) for f in of]
            spans.append((times[0][0], times[-1][1]))
    (begun, ended), (other_begun, other_ended) = spans
    assert begun < other_ended
    assert other_begun < ended


def test_conformance():
    failed = [str(r) for r in suite.run(f"cpu:c{TWO[-1]}") if r.status == suite.FAILED]
    assert not failed


# Sharing


@needs_two
def test_named_cores_share_with_those_who_use_all():
    plain = CpuBackend(Settings(home="")).info.shares
    one, two = (f"cpu:{TWO[0]}",), (f"cpu:{TWO[1]}",)
    assert sp.types.in_common(plain, one) == plain
    assert sp.types.in_common(one, plain) == one
    assert sp.types.in_common(one, two) == ()
    assert sp.types.in_common((*one, *two), two) == two
    assert sp.types.in_common(("cpu:1",), ("cpu:10",)) == ()


@needs_two
def test_a_context_of_two_cores_has_two_lanes():
    with sp.init([f"cpu:c{core}" for core in TWO] + ["cpu"]) as ctx:
        costs = ctx._executor.costs
        assert costs.waits_for(f"cpu:c{TWO[0]}") == [f"cpu:c{TWO[0]}", "cpu"]
        assert len(costs.waits_for("cpu")) == 3
        a = np.eye(64, dtype=np.float32)
        alone, beside = (explain._shared(d, ctx.devices) for d in ctx.devices[1:])
        assert alone == f", shares cpu:{TWO[1]} with cpu"
        assert beside == f", shares cpu with cpu:c{TWO[0]}, cpu:c{TWO[1]}"
        lanes = place_graph._lanes(costs, [f"cpu:c{core}" for core in TWO])
        assert len(set(lanes)) == 2
        for uri in ctx._uris:
            assert np.array_equal(ctx.gemm(a, a, devices=[uri]), a)


def test_thread_count_of_the_plain_device_is_unchanged():
    with sp.open("cpu") as dev:
        assert dev.info.compute_units == machine.thread_count()
        assert dev.info.shares == ("cpu",)


POLICY = {"MPOL_F_NODE": 1, "MPOL_F_ADDR": 2}  # Linux' include/uapi/linux/mempolicy.h
GET_MEMPOLICY = {"x86_64": 239, "aarch64": 236}  # asm/unistd_64.h; asm-generic/unistd.h
PREFERRED = 1


def policy(address: int) -> tuple[int, int]:
    """(mode, mask of nodes) of the page at an address; skips where the kernel does not tell."""
    libc = ctypes.CDLL(None, use_errno=True)
    number = GET_MEMPOLICY.get(os.uname().machine)
    mode, mask = ctypes.c_int(), (ctypes.c_ulong * 16)()
    arguments = (ctypes.byref(mode), mask, ctypes.c_ulong(1024), ctypes.c_void_p(address))
    if number is None or libc.syscall(number, *arguments, ctypes.c_ulong(POLICY["MPOL_F_ADDR"])):
        pytest.skip("needs a kernel that tells and sets policies of memory: get_mempolicy failed")
    return mode.value, sum(word << 64 * at for at, word in enumerate(mask))


def on_node(node: int, cores=(OURS[0],)) -> CpuBackend:
    return CpuBackend(
        Settings(""), which=Named(f"cpu:node{node}", (machine.NumaNode(node, cores),), "")
    )


@pytest.mark.parametrize("memory", [sp.Memory.DEVICE, sp.Memory.HOST, sp.Memory.SHARED])
@pytest.mark.parametrize("nbytes", [65536, 3 << 20])
def test_memory_of_named_cores_prefers_their_node(memory, nbytes):
    if not machine.nodes():
        pytest.skip("needs a kernel that tells its NUMA nodes")
    node = next(n.number for n in machine.nodes() if OURS[0] in n.cpus)
    for uri in (f"cpu:c{OURS[0]}", f"cpu:node{node}"):
        with sp.open(uri) as dev, dev.buffer(nbytes, memory) as buffer:
            for at in (0, nbytes // 2, nbytes - 1):
                assert policy(buffer.address + at) == (PREFERRED, 1 << node)
            buffer.write(np.ones(nbytes, np.uint8))
            assert (buffer.read(np.uint8, nbytes) == 1).all()
    with sp.open("cpu") as dev, dev.buffer(nbytes, memory) as buffer:
        assert policy(buffer.address) == (0, 0)  # that of the thread, as ever


def test_what_lies_beside_small_memory_keeps_its_policy():
    with sp.open(f"cpu:c{OURS[0]}") as dev, dev.buffer(65535) as buffer:
        assert policy(buffer.address) == (0, 0)


def test_a_refused_policy_is_said_once_and_nothing_fails(caplog):
    caplog.set_level("DEBUG", "sparkle_drv.cpu")
    with Device("cpu:node1023", on_node(1023)) as dev:  # no machine has this one
        for _ in range(3):
            with dev.array(np.arange(1 << 16)) as x:
                assert x.numpy()[-1] == (1 << 16) - 1
    said = [r.getMessage() for r in caplog.records if "mbind" in r.getMessage()]
    assert len(said) == 1
    assert "node 1023" in said[0]
    assert caplog.records[0].levelname == "DEBUG"


def test_cores_on_several_nodes_prefer_none(tmp_path, monkeypatch):
    two = Named("cpu:c0-1", (machine.NumaNode(0, (0,)), machine.NumaNode(1, (1,))), "")
    assert two.node is None
    assert Named("cpu:node3", (machine.NumaNode(3, (0, 1)),), "").node == 3


def test_a_pin_that_the_kernel_refuses_is_told_once(caplog):
    absent = max(OURS) + 5000  # Linux: EINVAL when no core of the mask is there
    with Device("cpu:node0", on_node(0, (absent,))) as dev:
        x = dev.array(np.arange(1000, dtype=np.float32))
        for _ in range(3):
            assert sp.ops.reduce(dev, x, "max").numpy() == 999
            dev.buffer(64).close()
    said = [r for r in caplog.records if "sched_setaffinity: EINVAL" in r.getMessage()]
    assert [r.levelname for r in said] == ["WARNING"]
    assert "cpu:node0" in said[0].getMessage()


def test_more_threads_than_cores_by_the_environment(monkeypatch):
    monkeypatch.setenv("SPARKLE_THREADS", "1000")
    with pytest.raises(ValueError, match=r"expected at most 1 on .*got 1000 .*SPARKLE_THREADS"):
        sp.open(f"cpu:c{OURS[0]}")
