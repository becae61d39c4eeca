"""Each request of a session, by what it does at the node.

When this fails, a remote device does something else than the client asked.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
from cluster_kit import Answer, lent, raw, vecadd

from sparkle_drv.core.abi import records


@pytest.fixture(scope="module")
def node():
    with lent("cpu") as made:
        yield made


@pytest.fixture
def client(node):
    with raw(node.air) as made:
        made.open()
        yield made


def test_open_tells_of_the_device_its_kernels_and_the_quotas(node):
    with raw(node.air) as client:
        said = client.open("cpu:0")
        assert said["info"]["uri"] == "cpu"
        assert "gemm_f32" in said["kernels"]
        assert said["clock"]
        assert said["most"]["queues"] == 16
        with pytest.raises(Answer, match="expected one device per session, got another"):
            client.open()


def test_a_device_that_is_not_lent_names_those_that_are(node):
    with raw(node.air) as client, pytest.raises(Answer, match="expected one of cpu, got") as e:
        client.open("cuda:0")
    assert e.value.kind == "DeviceNotFound"


@pytest.mark.parametrize("nbytes", [0, 5, 32 << 10, (32 << 10) + 1, 1 << 20])
def test_bytes_come_back(client, nbytes):
    data, address = os.urandom(nbytes), client.alloc(nbytes)
    client.ask("queue", queue=1, timing=False)
    client.write(1, 1, address, data, transfer=1 if nbytes > 32 << 10 else 0)
    assert client.read(1, 2, address, nbytes) == data


def test_records_run_with_the_sessions_own_addresses(client):
    a, b = client.alloc(256), client.alloc(256)
    client.ask("queue", queue=7, timing=True)
    listed = records.fill(a, 256, 0xABCD, 2) + records.barrier() + records.copy(b + 64, a, 192)
    client.submit(7, 1, listed)
    assert client.wait(7, 1) is None
    assert client.read(7, 2, b, 256) == bytes(64) + b"\xcd\xab" * 96
    begin, end = client.times[7, 1]
    assert 0 < begin <= end <= client.ask("timestamp")["ns"]


def test_a_kernel_launched_and_prepared(client):
    n = 1000
    x = np.arange(n, dtype="f4")
    at = [client.alloc(4 * n) for _ in range(3)]
    loaded = client.load("vecadd_f32")
    assert loaded["form"] == "grid"
    assert loaded["group_size"] is None
    client.ask("queue", queue=1, timing=False)
    client.write(1, 1, at[1], x.tobytes())
    client.write(1, 2, at[2], x.tobytes())
    record = vecadd(loaded["kernel"], n, *at)
    client.submit(1, 3, record)
    assert (np.frombuffer(client.read(1, 4, at[0], 4 * n), "f4") == 2 * x).all()
    client.ask("prepare", prepared=5, record=vecadd(loaded["kernel"], n, at[0], at[0], at[1]))
    for value in (5, 6, 7):
        client.post("run", queue=1, value=value, prepared=5)
    assert (np.frombuffer(client.read(1, 8, at[0], 4 * n), "f4") == 5 * x).all()
    client.post("run", queue=1, value=18, prepared=5)  # for ten values
    assert (np.frombuffer(client.read(1, 19, at[0], 4 * n), "f4") == 15 * x).all()
    client.ask("forget", prepared=5)
    client.ask("unload", kernel=loaded["kernel"])
    client.submit(1, 20, record)
    assert "expected a kernel of this session" in client.wait(1, 20)[1]
