"""Bytes between devices of all kinds: right, by the transport that the table says, and counted.

When this fails, bytes between two devices are wrong, or go through the host without need.
"""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial

import fakecuda
import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv.core.device import Device
from sparkle_drv.core.queue import Queue
from sparkle_drv.errors import DeviceLost, FenceTimeout, KernelFault, SparkleError
from sparkle_drv.mesh.lanes import transports
from sparkle_drv.mesh.lanes.array_runner import Ways, run_on_arrays
from sparkle_drv.mesh.lanes.program import Lane, Program, Region, RegionCopy, Step
from sparkle_drv.mesh.lanes.staged_transfer import CHUNK_NBYTES, StagingMemory
from sparkle_drv.mesh.lanes.transports import NoWay, Way
from sparkle_drv.testing import emu
from sparkle_drv.testing.emulated_faults import apply, happened
from sparkle_drv.testing.emulator import Machine
from sparkle_drv.testing.faults import Fault, Schedule

SIZES = (1, 3, 4096, CHUNK_NBYTES - 1, CHUNK_NBYTES, 2 * CHUNK_NBYTES + 5)
KINDS = ("cpu", "egl:0", "cuda:0", "emu:gfx1100")
USUAL = {
    ("cpu", "cpu"): "shared",
    **{("cpu", to): "into" for to in KINDS[1:]},
    **{(source, "cpu"): "back" for source in KINDS[1:]},
}
PAIRS = [(a, b) for a in KINDS for b in KINDS if a != b] + [("cpu", "cpu")]
QUICK = [pair for pair in PAIRS if "emu:gfx1100" not in pair]


@pytest.fixture
def way(opened):
    made = []

    def between(source, to):
        made.append(Way(opened(source), opened(to)))
        return made[-1]

    yield between
    for one in made:
        one.close()


def carried(way, nbytes, seed=0):
    """What arrives of random bytes, with what stands around it."""
    host = np.random.default_rng(seed).integers(0, 256, nbytes, np.uint8)
    with way.source.buffer(nbytes + 64) as src, way.to.buffer(nbytes + 128) as dst:
        way.source.default_queue.write(src.view(64, nbytes), host).wait()
        way.to.default_queue.write(dst, np.full(nbytes + 128, 7, np.uint8)).wait()
        fence = way.move(src.view(64, nbytes), dst.view(64, nbytes))
        if fence is not None:
            fence.wait()
        got = np.empty(nbytes + 128, np.uint8)
        way.to.default_queue.read(dst, got).wait()
    assert (got[:64] == 7).all()
    assert (got[64 + nbytes :] == 7).all()
    np.testing.assert_array_equal(got[64 : 64 + nbytes], host)


@pytest.mark.parametrize(("source", "to"), PAIRS, ids="-".join)
def test_bytes_arrive_and_are_counted(way, source, to):
    one, total = way(source, to), 0
    slow = "emu" in source + to
    for nbytes in SIZES[: 3 if slow else None]:
        carried(one, nbytes, nbytes)
        total += nbytes
    assert one.moved == {USUAL.get((source, to), "staged"): total}


@pytest.mark.parametrize("to", ["cuda:0", "emu:gfx1100"])
def test_a_wrapped_stage_keeps_its_memory(opened, to):
    """Whatever the source closes: its pool does not give the memory away while `to` has it."""
    source, to, n = opened("egl:0"), opened(to), 1 << 16
    with StagingMemory(source, to, n) as stage:
        assert stage.there is not None
        stage.here.write(np.full(n, 5, np.uint8))
        stage.here.close()
        with source.buffer(n, sp.Memory.HOST) as other:
            other.write(np.full(n, 6, np.uint8))
            assert (stage.there.read(np.uint8, n) == 5).all()


@pytest.fixture
def cards(opened):
    """Two cards of the fake driver, for this test alone, and its control."""
    opened("cuda:0")  # the driver is the fake's now, whatever the environment says
    with sp.open("cuda:0") as first, sp.open("cuda:1") as second:
        if first.info.name != fakecuda.NAME:
            pytest.skip("the fake driver is missing: a real one is in use")
        control = fakecuda.Control(fakecuda.library())
        yield first, second, control
        control("reset")
        control("peer on")


@pytest.mark.parametrize(
    ("fails", "by"),
    [
        (("cuMemcpyPeerAsync",), "staged"),  # by memory that both drivers' mappings page-lock
        (("cuMemcpyPeerAsync", "cuMemHostRegister_v2"), "staged"),  # by uploads
        (("cuMemcpyPeerAsync", "cuMemHostRegister_v2", "cuMemHostAlloc"), ""),
    ],
)
def test_calls_that_fail_leave_the_next_transport(cards, fails, by):
    first, second, control = cards
    with Way(first, second) as one, suppress(NoWay):
        carried(one, 3_000_000)
        assert one.moved == {"peer": 3_000_000}
        for call in fails:
            control(f"fail {call} 801 times=-1")
        host = np.random.default_rng(5).integers(0, 256, 3_000_000, np.uint8)
        with first.array(host) as src, second.empty(host.shape, np.uint8) as dst:
            one.move(src.buffer, dst.buffer).wait()
            assert one.moved == {"peer": 3_000_000, by: 3_000_000}
            np.testing.assert_array_equal(dst.numpy(), host)
    assert list(one.failed) == (["peer"] if by else ["peer", "staged"])


def counted(control):
    """Bytes that the driver copied, by its engine."""
    return {name: control(f"bytes {name}") for name in ("h2d", "d2h", "peer")}


def test_peers_move_no_byte_over_the_host(cards):
    first, second, control = cards
    assert (first.peer(second), first.peer(first)) == ("direct", "direct")
    with Way(first, second) as one:
        control("reset")
        carried(one, 100_000)
        assert one.moved == {"peer": 100_000}
        # The test itself writes and reads what stands around the bytes, too.
        own = {"h2d": 2 * 100_128 - 128, "d2h": 100_128}
        assert counted(control) == {**own, "peer": 100_000}
    control("peer off")
    assert (first.peer(second), second.peer(first)) == ("staged", "staged")
    with Way(first, second) as one:
        control("reset")
        carried(one, 100_000)
        assert one.moved == {"staged": 100_000}
        assert counted(control) == {"h2d": own["h2d"] + 100_000, "d2h": 200_128, "peer": 0}


@contextmanager
def watched(*devices):
    """Counts the bytes that these devices' backends copy to and from the host."""
    over = []

    def counts(call, queue, address, data):
        over.append(data.nbytes)
        return call(queue, address, data)

    with pytest.MonkeyPatch.context() as patch:
        for backend in (device._backend for device in devices):
            for name in ("upload", "download"):
                patch.setattr(backend, name, partial(counts, getattr(backend, name)))
        yield over


@pytest.fixture
def emulated():
    """Two cards in one machine, and that."""
    with Machine(["gfx1100", "gfx1036"]) as machine:
        cards = [emu.open_card(machine, at, f"emu:{at}") for at in range(2)]
        with Device("emu:0", cards[0]) as a, Device("emu:1", cards[1]) as b:
            yield a, b, machine


def test_emulated_cards_share_memory_by_prime(emulated):
    a, b, _ = emulated
    assert a.peer(b) == b.peer(a) == "direct"
    with Way(a, b) as one, a.buffer(10_000) as src, b.buffer(10_000) as dst:
        carried(one, 10_000)
        with watched(a, b) as over:
            one.move(src, dst).wait()
        assert over == []
        assert one.moved == {"peer": 20_000}
        one.failed["peer"] = "off"  # the next one: chunks in memory that both cards map
        with watched(a, b) as over:
            one.move(src, dst).wait()
        assert over == []
        carried(one, 10_000)
        assert one.moved == {"peer": 20_000, "staged": 20_000}


@pytest.mark.parametrize("call", ["map", "submit"])
@pytest.mark.parametrize("card", [0, 1])
def test_a_call_that_fails_on_an_emulated_card_leaves_the_next_transport(emulated, card, call):
    a, b, machine = emulated
    with Way(a, b) as one:
        if call == "submit":
            carried(one, 10_000)  # later copies map nothing any more
        host = np.arange(10_000, dtype=np.uint8)
        with a.array(host) as src, b.empty(host.shape, np.uint8) as dst:
            apply(Schedule(0, [Fault(call, 1, "fail", error="EINVAL")]), machine, card)
            one.move(src.buffer, dst.buffer).wait()
            np.testing.assert_array_equal(dst.numpy(), host)
        assert happened(machine, card)["fail"] == 1
        before = {"peer": 10_000} if call == "submit" else {}
        assert one.moved == {**before, "staged": 10_000}


def test_a_card_that_is_lost_in_a_transfer_is_a_typed_error(emulated):
    a, b, machine = emulated
    with Way(a, b) as one, a.buffer(10_000) as src, b.buffer(10_000) as dst:
        apply(Schedule(0, [Fault("job", 1, "unplug")]), machine, 1)
        with pytest.raises(DeviceLost, match="emu:1"):
            one.move(src, dst).wait()
        assert (one.moved, one.failed) == ({}, {})


def test_a_lost_source_is_to_blame_and_not_its_reader(emulated):
    a, b, machine = emulated
    asked: list[str] = []
    with Way(a, b) as one, a.buffer(10_000) as src, b.buffer(10_000) as dst:
        one.move(src, dst).wait()
        apply(Schedule(0, [Fault("job", 1, "unplug")]), machine, 0)
        with pytest.raises((DeviceLost, KernelFault)):
            one.move(src, dst, asked.append).wait()
        with pytest.raises(DeviceLost):  # now it is known to be lost
            one.move(src, dst, asked.append).wait()
    assert (asked[-1], a.healthy, b.healthy) == (a.uri, False, True)


def test_collectives_on_shared_memory_move_nothing():
    """A reduction reads the other array where it is, and writes its part of the result there."""
    uris = ["cpu:c0", "cpu:c1"]
    if not {0, 1} <= os.sched_getaffinity(0):
        pytest.skip("needs the cores 0 and 1")
    with sp.init(uris, profile=False) as ctx, ctx.create_mesh() as mesh:
        host = [np.arange(50_001, dtype=np.float32) * sign for sign in (1, -3)]
        whole = {"sum": np.add, "max": np.maximum, "mean": lambda a, b: (a + b) / 2}
        mesh.plan_all_reduce(host[0].nbytes)
        before = mesh.moved
        for op, expected in whole.items():
            arrays = [device.array(row) for device, row in zip(ctx.devices, host, strict=True)]
            with watched(*ctx.devices) as over:
                mesh.all_reduce(arrays, op=op)
            assert "shared memory" in str(mesh.plan)
            assert over == []
            assert mesh.moved == before
            for array in arrays:
                np.testing.assert_array_equal(array.numpy(), expected(*host))


def test_how_devices_reach_others(opened):
    cpu, egl, cuda = (opened(uri) for uri in ("cpu", "egl:0", "cuda:0"))
    assert (cpu.peer(egl), egl.peer(cuda), cuda.peer(cpu)) == ("", "", "")
    with sp.open("egl:0") as other, sp.open("cpu") as same:
        assert (egl.peer(other), egl.peer(egl)) == ("staged", "direct")
        assert cpu.peer(same) == "direct"
        with Way(egl, other) as one:
            carried(one, 5000)
            assert one.moved == {"staged": 5000}


def test_a_backend_that_says_nothing_counts_as_staged(cards, monkeypatch):
    monkeypatch.setattr(type(cards[0]._backend), "peer", None)
    with sp.open("cuda:0") as a, sp.open("cuda:1") as b:
        assert a.peer(b) == "staged"


@pytest.mark.parametrize(("source", "to"), QUICK, ids="-".join)
def test_the_next_transport_takes_over(way, source, to, monkeypatch, caplog):
    one = way(source, to)
    fit = [n for n, t in transports.TABLE.items() if t.fits(one.source, one.to)]
    for at, name in enumerate(fit[:-1]):

        def fails(*_, name=name):
            raise SparkleError(f"{name} is out of order")

        monkeypatch.setitem(
            transports.TABLE, name, transports.LinkTransport(transports.TABLE[name].fits, fails)
        )
        carried(one, 5000, at)
        assert one.failed[name] == f"{name} is out of order"
        assert f"stopped using {name}" in caplog.text
    assert list(one.moved) == fit[1:]


class Fails:
    """Work that has begun well and ends badly."""

    def wait(self, timeout_s):
        raise KernelFault("the cable is out")


@pytest.mark.parametrize(("source", "to"), QUICK, ids="-".join)
def test_the_next_transport_takes_over_from_one_that_fails_at_its_end(way, source, to, monkeypatch):
    one = way(source, to)
    first, *others = [n for n, t in transports.TABLE.items() if t.fits(one.source, one.to)]
    row = transports.TABLE[first]
    monkeypatch.setitem(transports.TABLE, first, replace(row, move=lambda *_: Fails()))
    if others:
        carried(one, 5000)
        assert one.moved == {others[0]: 5000}
    else:
        with pytest.raises(NoWay, match="staged: the cable is out"):
            carried(one, 5000)
    assert one.failed == {first: "the cable is out"}


def test_without_a_way_the_error_says_what_failed(way):
    one = way("cpu", "egl:0")
    one.failed.update(into="broken", staged="broken, too")
    with one.source.buffer(8) as src, one.to.buffer(8) as dst:
        with pytest.raises(NoWay, match=r"cpu to egl:0: into: broken; staged: broken, too"):
            one.transport()
        one.move(src, dst).wait()  # a fault may have passed: all are tried again
        assert one.moved == {"into": 8}
        with pytest.raises(ValueError, match="dst: expected 8 bytes, got 4"):
            one.move(src, dst.view(0, 4))


def test_a_lost_device_is_not_a_failed_transport(way, monkeypatch):
    one = way("cpu", "egl:0")

    def lost(*_):
        raise DeviceLost("egl:0: it was unplugged")

    monkeypatch.setattr(Queue, "write", lost)
    with one.source.buffer(8) as src, one.to.buffer(8) as dst, pytest.raises(DeviceLost):
        one.move(src, dst)
    assert not one.failed


@pytest.mark.parametrize(("source", "to"), [("egl:0", "cuda:0"), ("cuda:0", "egl:0")])
def test_legs_of_a_staged_way_overlap(way, source, to, monkeypatch):
    """Both queues have the next chunk before a wait for the one before it; the destination reads
    the stage in place if it can: egl cannot, and takes an upload."""
    one, told = way(source, to), []
    submit, write = Queue.submit, Queue.write

    def submitted(queue, commands):
        told.append("read" if queue.device is one.source else "copy")
        return submit(queue, commands)

    monkeypatch.setattr(Queue, "submit", submitted)
    monkeypatch.setattr(Queue, "write", lambda q, *a: told.append("write") or write(q, *a))
    with one.source.buffer(5 * CHUNK_NBYTES) as src, one.to.buffer(5 * CHUNK_NBYTES) as dst:
        one.move(src, dst).wait()
    put = "write" if to == "egl:0" else "copy"
    assert told == [*["read"] * 3, put, put, "read", put, "read", put, put]


def test_a_staged_transfer_takes_turns_with_its_waits(way):
    """A wait that is too short carries it on as far as it gets; what is left is not used again."""
    one = way("egl:0", "cuda:0")
    host = np.random.default_rng(3).integers(0, 256, 9 * CHUNK_NBYTES, np.uint8)
    with one.source.buffer(host.nbytes) as src, one.to.buffer(host.nbytes) as dst:
        one.source.default_queue.write(src, host).wait()
        one.move(src, dst)  # nobody waits for it
        left = one.move(src, dst)
        begun = left._begun
        assert one._stages == []
        for _ in range(1000):
            with suppress(FenceTimeout):
                left.wait(0.0)
                break
        left.wait()
        got = np.empty_like(host)
        one.to.default_queue.read(dst, got).wait()
    np.testing.assert_array_equal(got, host)
    assert one.moved == {"staged": host.nbytes}
    assert one._stages is begun.stages


def test_a_way_whose_device_hangs_is_closed_before_it_ends(cards):
    """The upload takes 3 s; its step 0.3 s. What it uses is kept until it has ended."""
    first, second, control = cards
    control("peer off")
    control("reset")
    pinned = control("live registered")
    copy = RegionCopy(Region("a", "data", 0, 6000), Region("b", "temp", 0, 6000))
    steps = (Step(0, Lane("a", "b"), copy, deadline_s=0.3), Step(1, Lane("b", "a"), copy))
    ways = Ways({"a": first, "b": second})
    with first.array(np.zeros(6000, np.uint8)) as array:
        control("time h2d 0.000002")
        with pytest.raises(FenceTimeout, match=r"step 0, copy of 6000 .* end within 0.3 s, but"):
            run_on_arrays(Program(steps[:1]), {"a": array}, ways)
    control("time h2d 0")
    with pytest.raises(FenceTimeout, match="cuda:1: work of a queue did not end within"):
        ways.close()
    ways.close()
    assert control("live registered") > pinned
    second.close()
    first.close()
    assert control("live registered") == pinned


def test_no_bytes_take_nothing(way):
    one = way("cpu", "egl:0")
    with one.source.buffer(0) as src, one.to.buffer(0) as dst:
        assert one.move(src, dst) is None
    assert one.moved == {}


def test_close_is_idempotent_and_gives_everything_back():
    with sp.open("cpu") as a, sp.open("cpu") as b:
        one = Way(a, b)
        carried(one, 100_000)
        one.close()
        before = a._backend.live_counts()  # with the devices' own queues
        carried(one, 100_000)
        one.close()
        one.close()
        assert a._backend.live_counts() == before
