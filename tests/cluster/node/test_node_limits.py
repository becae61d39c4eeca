"""Quotas: each refusal names the quota, its value, what is taken and what was asked for.

When this fails, one client takes the whole node, and is not told at which limit it stopped.
"""

from __future__ import annotations

import errno

import pytest
from cluster_kit import Answer, lent, raw, vecadd

from sparkle_drv.cluster.node import quotas, server
from sparkle_drv.cluster.node.quotas import Quotas
from sparkle_drv.cluster.refused import Refused
from sparkle_drv.core.abi import records
from sparkle_drv.errors import DeviceNotFound

FEW = Quotas(
    memory=1 << 20, buffers=3, queues=2, kernels=2, prepared=2, flight=1 << 20, waiting=1 << 20,
    sessions=2,
)  # fmt: skip


@pytest.fixture(scope="module")
def node():
    with lent("cpu", quotas=FEW) as made:
        yield made


@pytest.fixture
def client(node):
    with raw(node.air) as made:
        assert made.open()["most"] == FEW.by_name()
        yield made


def refusal(kind, says, ask, *given, **fields):
    with pytest.raises(Answer) as refused:
        ask(*given, **fields)
    assert refused.value.kind == kind
    assert refused.value.words == says


def test_memory(client):
    at = client.alloc(1 << 19)
    says = "quota memory: expected at most 1048576, got 524289 more beside 524288 in use"
    refusal("OutOfDeviceMemory", says, client.alloc, (1 << 19) + 1)
    client.ask("free", address=at)
    client.alloc(1 << 20)


def test_buffers(client):
    for _ in range(3):
        client.alloc(0)
    says = "quota buffers: expected at most 3, got 1 more beside 3 in use"
    refusal("OutOfDeviceMemory", says, client.alloc, 0)


def test_queues(client):
    for queue in (1, 2):
        client.ask("queue", queue=queue, timing=False)
    says = "quota queues: expected at most 2, got 1 more beside 2 in use"
    refusal("ValueError", says, client.ask, "queue", queue=3, timing=False)
    client.ask("close_queue", queue=1)
    client.ask("queue", queue=3, timing=False)


def test_kernels_and_prepared_launches(client):
    kernel = client.load("vecadd_f32")["kernel"]
    other = client.load("noop")["kernel"]
    says = "quota kernels: expected at most 2, got 1 more beside 2 in use"
    refusal("ValueError", says, client.load, "noop")
    client.ask("unload", kernel=other)
    client.load("noop")
    at = client.alloc(64)
    for number in (1, 2):
        client.ask("prepare", prepared=number, record=vecadd(kernel, 1, at, at, at))
    says = "quota prepared: expected at most 2, got 1 more beside 2 in use"
    record = vecadd(kernel, 1, at, at, at)
    refusal("ValueError", says, client.ask, "prepare", prepared=3, record=record)
    client.ask("forget", prepared=1)
    client.ask("prepare", prepared=3, record=record)


def test_transfers(client):
    client.ask("queue", queue=1, timing=False)
    client.post("submit", queue=1, value=1, records=None, transfer=1, nbytes=(1 << 20) + 8)
    code, words = client.wait(1, 1)
    assert code == errno.EINVAL
    assert words == "quota flight: expected at most 1048576, got 1048584 more beside 0 in use"
    at = client.alloc(1 << 20)
    data = bytes(1 << 19)
    for value in range(2, 8):  # more than the quota together: they wait for one another
        client.write(1, value, at, data, transfer=value)
    assert client.wait(1, 7) is None
    assert client.ask("counts")["counts"]["flight"] == 0


def test_sessions(node, client):
    with pytest.raises(Refused, match="sessions: 2 at most, 2 are"), raw(node.air), raw(node.air):
        pass
    assert any("refused: quota sessions" in line for line in node.said)


def test_requests_that_wait(node, client, monkeypatch):
    client.ask("queue", queue=1, timing=False)
    client.post("submit", queue=1, value=1, records=None, transfer=1, nbytes=8)  # nothing comes
    for value in range(2, 60):
        client.submit(1, value, records.barrier() * 4000)
    client.until(lambda: client.ended, "the end")
    assert client.ended == "quota waiting: 1048576 bytes of requests wait"


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("", Quotas()),
        ("memory=4K,queues=3", Quotas(memory=4096, queues=3)),
        ("flight=2g", Quotas(flight=2 << 30)),
    ],
)
def test_quotas_as_text(text, made):
    assert quotas.parse(text) == made


@pytest.mark.parametrize(
    "text", ["memory", "memory=", "memory=-1", "memory=1.5", "queues=0", "x=1"]
)
def test_texts_that_are_no_quotas(text):
    with pytest.raises(ValueError, match="quota"):
        quotas.parse(text)


def test_a_node_without_a_device_does_not_start():
    assert server.usable(["cpu"]) == ["cpu"]
    with pytest.raises(DeviceNotFound):
        server.usable(["cuda:77"])
    with pytest.raises(DeviceNotFound, match="expected a usable device to lend"):
        server.usable([])
