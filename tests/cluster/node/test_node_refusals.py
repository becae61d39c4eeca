"""What a node does not do: each refusal names what is wrong, and other sessions go on.

When this fails, a refused request ends the sessions of other clients.
"""

from __future__ import annotations

import errno

import numpy as np
import pytest
from cluster_kit import Answer, lent, raw, vecadd

from sparkle_drv.cluster.node import transfers
from sparkle_drv.cluster.wire.requests import MOST_RUNS
from sparkle_drv.core.abi import records

FIRST, SECRET = 1 << 32, b"of another session"


@pytest.fixture(scope="module")
def node():
    with lent("cpu") as made:
        yield made


@pytest.fixture
def client(node):
    with raw(node.air) as made:
        made.open()
        made.ask("queue", queue=1, timing=False)
        yield made


@pytest.fixture
def other(node):
    """Another session, whose memory and queue must stay as they are."""
    with raw(node.air) as made:
        made.open()
        made.ask("queue", queue=1, timing=False)
        address = made.alloc(64)
        made.write(1, 1, address, SECRET)
        assert made.wait(1, 1) is None
        yield made
        assert made.read(1, 2, address, len(SECRET)) == SECRET


def fault(client, value, records_):
    client.submit(1, value, records_)
    return client.wait(1, value)


@pytest.mark.parametrize(
    ("listed", "code", "says"),
    [
        (
            records.fill(0x1000, 4, 0, 4),
            errno.EFAULT,
            "fill: dst: expected memory of this session, got 0x1000",
        ),
        (records.fill(FIRST + 4096, 4, 0, 4), errno.EFAULT, "expected memory of this session"),
        (records.fill(2**64 - 4, 4, 0, 4), errno.EFAULT, "expected memory of this session"),
        (
            records.fill(FIRST, 260, 0, 4),
            errno.EFAULT,
            "expected at most 256 bytes at 0x100000000, got 260",
        ),
        (records.fill(FIRST, 2**64 - 4, 0, 4), errno.EFAULT, "expected at most 256 bytes"),
        (
            records.copy(FIRST, FIRST + 8, 256),
            errno.EFAULT,
            "copy: src: expected at most 248 bytes",
        ),
        (records.fill(FIRST, 6, 0, 4), errno.EINVAL, "divides 6, got 4"),
        (records.fill(FIRST, 6, 0, 3), errno.EINVAL, "expected 1, 2 or 4"),
        (records.timestamp(FIRST + 4), errno.EFAULT, "expected a multiple of 8"),
        (records.timestamp(FIRST), errno.EINVAL, "expected host memory"),
        (records.wait(9, 1), errno.EINVAL, "expected a submitted value of queue 9, got 1"),
        (records.fill(FIRST, 256, 0, 4)[:-8], errno.EINVAL, "expected whole records"),
        (records.HEAD.pack(records.FILL, 8), errno.EINVAL, "cut short"),
        (records.HEAD.pack(records.COPY, 4), errno.EINVAL, "expected whole records"),
        (records.HEAD.pack(records.DISPATCH, 8), errno.EINVAL, "cut short"),
        (records.HEAD.pack(77, 8), errno.EINVAL, "expected a known kind, got 77"),
        (b"\0" * 7, errno.EINVAL, "expected whole records"),
    ],
)
def test_records(client, other, listed, code, says):
    client.alloc(256)
    came = fault(client, 1, listed)
    assert came is not None
    assert came[0] == code
    assert says in came[1]
    assert client.read(1, 2, FIRST, 256) == bytes(256)  # the queue goes on, nothing was written


@pytest.mark.parametrize(
    ("how", "code", "says"),
    [
        ({"kernel": 99}, errno.EINVAL, "kernel: expected a kernel of this session, got 99"),
        ({"z": 0}, errno.EINVAL, "argument z"),
        (
            {"z": 0x7FFF00000000},
            errno.EFAULT,
            "argument z: expected memory of this session, got 0x7fff00000000",
        ),
        ({"z": FIRST + 2}, errno.EFAULT, "expected an address aligned for f32"),
        ({"z": FIRST + 4}, errno.EINVAL, "n elements are 256 bytes, the buffer has 252"),
        ({"covered": 8}, errno.EINVAL, "the buffer has 8"),
        ({"n": 2**32 - 1}, errno.EINVAL, "n elements are"),
        ({"groups": 2**32 - 1, "size": (2**32 - 1, 1, 1)}, errno.EINVAL, "group_size"),
        ({"groups": 2**32 - 1, "axis": 3}, errno.EINVAL, "does not fit into 64 bits"),
        ({"groups": 2, "axis": 3}, errno.EINVAL, "dimension"),
        ({"shared": 1}, errno.EINVAL, "shared: expected 0 to"),
        ({"cut": 8}, errno.EINVAL, "expected 56 bytes of arguments, got 48"),
        ({"cut": 60}, errno.EINVAL, "cut short"),
    ],
)
def test_dispatches(client, other, how, code, says):
    at = client.alloc(256)
    usual = {"kernel": client.load("vecadd_f32")["kernel"], "n": 64, "z": at, "x": at, "y": at}
    record = vecadd(**{**usual, **how})
    came = fault(client, 1, record)
    assert came is not None
    assert came[0] == code
    assert says in came[1]
    with pytest.raises(Answer) as refused:
        client.ask("prepare", prepared=1, record=record)
    assert refused.value.words == came[1]


@pytest.mark.parametrize(
    ("asked", "kind", "says"),
    [
        (("free", {"address": FIRST + 64}), "ValueError", "expected the start of an allocation"),
        (("free", {"address": 0}), "ValueError", "expected the start of an allocation"),
        (("unload", {"kernel": 5}), "ValueError", "expected a kernel of this session"),
        (
            ("forget", {"prepared": 5}),
            "ValueError",
            "expected the number of a prepared launch, got 5",
        ),
        (("ask", {"queue": 5}), "ValueError", "expected an open queue, got 5"),
        (("queue", {"queue": 1, "timing": False}), "ValueError", "expected a new number"),
        (("close_queue", {"queue": 4}), "ValueError", "expected an open queue, got 4"),
        (
            ("run", {"queue": 4, "value": 1, "prepared": 1}),
            "ValueError",
            "expected an open queue, got 4",
        ),
        (("alloc", {"nbytes": 8, "memory": "moon"}), "ValueError", "moon"),
        (("alloc", {"nbytes": 2**62 + 1, "memory": "host"}), "ValueError", "alloc: nbytes"),
        (("alloc", {"nbytes": 2**62, "memory": "host"}), "OutOfDeviceMemory", "quota memory"),
        (("alloc", {"nbytes": -1, "memory": "host"}), "ValueError", "nbytes"),
        (("prepare", {"prepared": 1, "record": records.barrier()}), "ValueError", "one dispatch"),
        (("renew", {"request": {"a": 1}}), "Refused", "expected a node that makes certificates"),
        (("launch", {}), "ValueError", "expected the name of a request, got 'launch'"),
        (("alloc", {}), "ValueError", "expected the field nbytes, got none"),
        (("counts", {"more": 1}), "ValueError", "expected known fields"),
    ],
)
def test_requests(client, other, asked, kind, says):
    with pytest.raises(Answer) as refused:
        client.ask(asked[0], **asked[1])
    assert refused.value.kind == kind
    assert says in refused.value.words


@pytest.mark.parametrize(
    ("name", "how", "says"),
    [
        ("no_such_f32", {}, "not in the manifest"),
        ("../noop", {}, "not in the manifest"),
        ("gemm_f32", {"plan": {"algo": "evil"}}, "got 'evil'"),
        ("gemm_f32", {"plan": {"levels": [[-1, 1, 1]]}}, ""),
        ("gemm_f32", {"plan": {"levels": [[2**32, 1, 1]]}}, ""),
        ("gemm_f32", {"plan": {"levels": [[1, 1]]}}, "expected 3 values"),
        ("gemm_f32", {"plan": {"sauce": 1}}, "expected known fields"),
        ("map_f32", {"plan": {"program": [1, 2]}}, "program"),
    ],
)
def test_kernels(client, name, how, says):
    with pytest.raises(Answer) as refused:
        client.load(name, **how)
    assert refused.value.kind == "ValueError"
    assert says in refused.value.words


def test_a_stale_address_and_a_stale_kernel_are_gone(client, other):
    at = client.alloc(256)
    kernel = client.load("vecadd_f32")["kernel"]
    client.ask("free", address=at)
    client.ask("unload", kernel=kernel)
    assert fault(client, 1, records.fill(at, 256, 0, 4))[0] == errno.EFAULT
    again = client.alloc(256)
    assert again != at
    assert (
        "expected a kernel of this session"
        in fault(client, 2, vecadd(kernel, 64, again, again, again))[1]
    )


def test_addresses_of_another_session_mean_nothing_here(client, other):
    mine = client.alloc(64)
    assert mine == FIRST  # as the other's first: both count from the same number
    assert client.read(1, 1, mine, 64) == bytes(64)


def test_reads_and_writes_outside(client, other):
    at = client.alloc(100)
    client.write(1, 1, at + 96, b"12345")
    assert client.wait(1, 1)[0] == errno.EFAULT
    client.post("read", queue=1, value=2, address=at, nbytes=101, transfer=1)
    assert client.wait(1, 2)[0] == errno.EFAULT
    client.post("read", queue=1, value=3, address=at, nbytes=2**62, transfer=2)
    assert client.wait(1, 3)[0] == errno.EFAULT
    client.post("write", queue=1, value=4, address=at, data=b"123", transfer=0, nbytes=4)
    assert "expected the 3 bytes" in client.wait(1, 4)[1]
    client.post("write", queue=1, value=5, address=at, data=b"123", transfer=7, nbytes=3)
    assert "both or neither" in client.wait(1, 5)[1]
    assert client.read(1, 6, at, 100) == bytes(100)


def test_a_value_out_of_order_ends_the_session_that_waits_for_no_reply(client, other):
    client.submit(1, 2, records.barrier())
    with pytest.raises(ConnectionError, match="value: expected 1, the next one of queue 1, got 2"):
        client.wait(1, 2)


def test_a_run_of_too_many_values_ends_the_session(client, other):
    client.post("run", queue=1, value=MOST_RUNS + 1, prepared=1)
    with pytest.raises(
        ConnectionError, match=f"expected 1, the next one of queue 1, got {MOST_RUNS + 1}"
    ):
        client.wait(1, MOST_RUNS + 1)


def test_a_run_of_what_is_not_prepared_fails_for_each_value(client, other):
    client.post("run", queue=1, value=3, prepared=7)
    for value in (1, 2, 3):
        assert (
            "prepared: expected the number of a prepared launch, got 7" in client.wait(1, value)[1]
        )


def test_a_transfer_that_never_comes_is_given_up(client, other, monkeypatch):
    monkeypatch.setattr(transfers, "SILENT_S", 0.3)
    at = client.alloc(1 << 20)
    client.post("write", queue=1, value=1, address=at, data=None, transfer=5, nbytes=1 << 20)
    code, words = client.wait(1, 1)
    assert code == errno.ETIMEDOUT
    assert "transfer 5: expected its 1048576 bytes, got no chunk" in words
    data = np.random.default_rng(3).bytes(1 << 20)
    client.write(1, 2, at, data, transfer=6)
    assert client.wait(1, 2) is None
    assert client.ask("counts")["counts"]["flight"] == 0


def test_images_need_trust(client, node):
    with pytest.raises(Answer, match="Refused: image: expected a client that --trust-code names"):
        client.load("mine", entry="mine", args=["f32*"], transfer=3, nbytes=100)


def test_a_reader_waits_for_another_queues_value_and_not_for_the_future(client):
    client.ask("queue", queue=2, timing=False)
    at = client.alloc(1 << 16)
    client.submit(1, 1, records.fill(at, 1 << 16, 7, 1))
    client.submit(2, 1, records.wait(1, 1) + records.copy(at + 64, at, 64))
    assert client.wait(2, 1) is None
    client.submit(2, 2, records.wait(1, 2))
    assert "expected a submitted value of queue 1, got 2" in client.wait(2, 2)[1]
    client.ask("close_queue", queue=1)
    client.submit(2, 3, records.wait(1, 1))  # it has ended: there is nothing to wait for
    assert client.wait(2, 3) is None
