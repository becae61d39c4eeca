"""Causes: the tables are sound, and what is broken is named at the right rung.

When this fails, bring-up names the wrong cause of a broken card.
"""

from __future__ import annotations

import errno
import re
import threading
from fnmatch import fnmatchcase
from types import MappingProxyType

import pytest
from _bringup.benches import amdgpu as bench_amdgpu
from _bringup.benches.card import Emulated
from _bringup.causes import api as causes_api
from _bringup.causes import matching
from _bringup.causes.matching import Cause
from _bringup.ladder import families
from _bringup.results.rung import ERRNO, Result
from bringupkit import bench, climbed, planted

from sparkle_drv.lowlevel import raw

NAMES = {rung.name for rung in families.AMDGPU}
CS, CREATE, CTX, VA = 0x44, 0x40, 0x42, 0x48


@pytest.mark.parametrize(
    ("table", "names"),
    [
        (bench_amdgpu.CAUSES, NAMES),
        (causes_api.CAUSES, {rung.name for rung in families.of("cpu").rungs}),
    ],
    ids=["amdgpu", "api"],
)
def test_the_tables_name_what_there_is(table, names):
    ids = [cause.id for cause in table]
    assert len(set(ids)) == len(ids)
    for cause in table:
        assert cause.text, cause.id
        assert cause.source, cause.id
        for pattern in cause.rungs:
            assert any(fnmatchcase(name, pattern) for name in names), (cause.id, pattern)
        for call in cause.call.split("|"):
            known = "*" in call or call in ("open", "mmap")
            assert known or hasattr(raw.lib, f"DRM_IOCTL_{call}"), (cause.id, call)
        for name in cause.errno.split("|"):
            assert name == "*" or name in ERRNO.values() or hasattr(errno, name), (cause.id, name)
        assert set(re.findall(r"{(\w+)}", cause.next)) <= {"device", "rung"}, cause.id


def test_any_failure_has_a_cause_and_a_next_command():
    for name in NAMES:
        result = Result(name, "FAIL")
        matching.advise(bench_amdgpu.CAUSES, result, {})
        assert result.causes, name
        assert result.next, name


def test_what_asks_for_more_ranks_higher():
    table = (
        Cause("any", "a", "s"),
        Cause("rung", "a", "s", ("x",)),
        Cause("call", "a", "s", ("x",), "A|B", "EIO"),
        Cause("facts", "a", "s", ("x",), when=lambda f: f["one"] and f["two"], weight=2),
        Cause("other", "a", "s", ("y",)),
    )
    result = Result("x", "FAIL", ioctl="B", errno="EIO", facts={"two": 1})
    ranked = matching.ranked(table, result, {"one": 1})
    assert [cause.id for cause in ranked] == ["facts", "call", "rung", "any"]


# At this rung, this is done to the machine: the rung that fails first, and the first cause.
PLANTED = [
    ("node", lambda m: m.unplug(), "node", "node-gone"),
    ("version", lambda m: m.fail_ioctl(0x00, errno.EACCES), "version", "no-permission"),
    ("contexts", lambda m: m.fail_ioctl(CTX, errno.ENOMEM), "contexts", "no-memory"),
    ("bo-vram", lambda m: m.fail_ioctl(CREATE, errno.ENOMEM), "bo-vram", "vram-full"),
    ("bo-gtt", lambda m: m.fail_ioctl(CREATE, errno.EINVAL), "bo-gtt", "flag-unknown"),
    ("va-map", lambda m: m.fail_ioctl(VA, errno.ENOMEM), "va-map", "page-tables"),
    ("mem-gtt", lambda m: m.reset(), "mem-gtt", "reset-under-way"),
    ("mem-visible", lambda m: m.reset(vram_lost=True), "mem-visible", "vram-lost"),
    ("nop-compute", lambda m: m.fail_ioctl(CS, errno.EINVAL), "nop-compute", "cs-refused"),
    ("nop-gfx", lambda m: m.fail_ioctl(CS, errno.EBUSY), "nop-gfx", "accel-busy"),
    ("nop-dma", lambda m: m.hold_jobs(), "nop-dma", "no-interrupts"),
    ("write-data", lambda m: m.fail_ioctl(CS, errno.ENOMEM), "write-data", "cs-no-memory"),
    ("sdma-copy", lambda m: m.unplug(), "sdma-copy", "unplugged"),
    ("store", lambda m: m.hang_next_job(), "store", "job-hung"),
    ("scratch", lambda m: m.fault_next_job(va=0x123456000), "scratch", "page-fault"),
    ("lds-barrier", lambda m: m.hang_next_job(recovery="soft"), "lds-barrier", "soft-recovered"),
    ("stress", lambda m: m.hang_next_job(recovery="vram_lost"), "stress", "vram-lost"),
    ("userptr", lambda m: m.fail_ioctl(0x51, errno.ENODEV), "userptr", "userptr-off"),
]


@pytest.mark.parametrize(
    ("at", "plant", "rung", "cause"), PLANTED, ids=[f"{p[2]}-{p[3]}" for p in PLANTED]
)
def test_what_is_planted_is_named(at, plant, rung, cause):
    with bench() as (machine, made):
        results = climbed(
            made, "node", "version", "contexts", rung, begun=planted(at, plant, machine)
        )
        failed = next(r for r in results.values() if r.status == "FAIL")
    assert (failed.name, failed.causes[0]["id"]) == (rung, cause), failed
    assert failed.next


class Told(raw.DrmNode):
    """A node that answers some INFO queries otherwise."""

    answers = MappingProxyType({})

    def info(self, query, ctype, **fields):
        out = super().info(query, ctype, **fields)
        for name, value in self.answers.get(query, {}).items():
            out = value if not name else out
            if name and fields.get("query_hw_ip__type", value[0]) == value[0]:
                setattr(out, name, value[1])
        return out


def told(**answers):
    class Card(Emulated):
        def open(self):
            plain = super().open()
            node = Told(plain.ops, plain.fd)
            node.answers = answers
            return node

    return Card


@pytest.mark.parametrize(
    ("answers", "rung", "cause"),
    [
        ({"HW_IP_INFO": {"available_rings": (2, 0)}}, "ring-dma", "ring-off"),
        ({"HW_IP_INFO": {"available_rings": (1, 0)}}, "ring-compute", "ring-off"),
        ({"DEV_INFO": {"family": (0, 149)}}, "device", "wrong-family"),
        ({"DEV_INFO": {"family": (0, 77)}}, "device", "wrong-family"),
        ({"DEV_INFO": {"cu_active_number": (0, 0)}}, "device", "no-cus"),
        ({"DEV_INFO": {"cu_active_number": (0, 5)}}, "device", "info-garbled"),
        ({"DEV_INFO": {"gpu_counter_freq": (0, 27000)}}, "clock", "clock-stopped"),
        ({"ACCEL_WORKING": {"": 0}}, "accel", "accel-off"),
        ({"TIMESTAMP": {"": 5}}, "clock", "clock-stopped"),
        ({"SENSOR": {"": 120_000}}, "sensors", "too-hot"),
        ({"FW_VERSION": {"ver": (0, 0)}}, "firmware", "no-firmware"),
    ],
)
def test_what_the_kernel_tells_wrongly_is_named(answers, rung, cause):
    names = [r.name for r in families.AMDGPU[:14]]
    with bench(card=told(**answers)) as (_, made):
        results = climbed(made, *names)
    assert results[rung].status == "FAIL", results
    assert results[rung].causes[0]["id"] == cause
    assert [r.name for r in results.values() if r.status == "FAIL"] == [rung]


def test_a_ring_that_is_off_blocks_its_own_rungs_alone():
    card = told(HW_IP_INFO={"available_rings": (2, 0)})
    with bench(card=card) as (_, made):
        results = climbed(made)
    blocked = {name for name, r in results.items() if r.status == "BLOCKED"}
    assert blocked == {n for n in NAMES if n.startswith(("sdma", "mem-hidden", "nop-dma", "order"))}
    assert {r.status for n, r in results.items() if n not in blocked} >= {"PASS", "FAIL"}
    assert results["stress"].status == "PASS"


def test_a_small_bar_is_told_and_blocks_nothing():
    with bench(visible_nbytes=256 << 20) as (_, made):
        results = climbed(made)
    assert [n for n, r in results.items() if r.status != "PASS"] == ["bar"]
    assert results["bar"].causes[0]["id"] == "bar-256"


def test_a_rung_alone_notices_a_reset_too():
    with bench() as (machine, made):
        # The job is done by then: nothing of the rung's own has failed.
        right = made.settle

        def settle():
            machine.reset()
            right()

        made.settle = settle
        result = climbed(made, "write-data")["write-data"]
    assert (result.status, result.causes[0]["id"]) == ("FAIL", "reset-under-way")


def test_eintr_is_nobodys_failure():
    with bench() as (machine, made):
        storm = planted("store", lambda m: m.fail_ioctl(CS, errno.EINTR, 20), machine)
        assert {r.status for r in climbed(made, "store", begun=storm).values()} == {"PASS"}


def test_an_ioctl_that_never_comes_back(monkeypatch):
    freed, right = threading.Event(), raw.DrmNode.ioctl

    def ioctl(self, name, arg, **more):
        if name == "AMDGPU_CS" and not freed.is_set():
            self.last = name
            freed.wait(30)
            raise raw.IoctlError(errno.ENODEV, name)
        return right(self, name, arg, **more)

    monkeypatch.setattr(raw.DrmNode, "ioctl", ioctl)
    with bench() as (_, made):
        try:
            results = climbed(made, "version", "nop-compute", "va-map", "userptr", timeout_s=1.0)
        finally:
            freed.set()
    hung = results["nop-compute"]
    assert (hung.status, hung.ioctl, hung.errno) == ("FAIL", "AMDGPU_CS", None)
    assert hung.causes[0]["id"] == "call-hangs"
    assert results["va-map"].status == "PASS"
    assert results["userptr"].facts["hung"]
