"""The conformance suite on a device of a node: what passes on the device itself passes here.

When this fails, code that works on a local device fails on the same device of a node.
"""

import numpy as np
import pytest
import remote_kit

import sparkle_drv as sp
from sparkle_drv.cluster.transport.air import Air
from sparkle_drv.testing import suite
from sparkle_drv.testing.checks.base import busy_speed, groups_for

SHORT = ("memory", "lists", "fences")
REPEATS = 20


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    with remote_kit.remote(home, "cpu"), sp.open("box1/cpu") as device:
        yield device


@pytest.mark.parametrize("check", suite.checks(), ids=str)
def test_conformance_over_a_wire(everything, check):
    try:
        suite.judge(check, everything)
    except suite.NotProvided as missing:
        pytest.skip(f"not provided: {missing}")


def misbehaving(seed):
    return Air(seed, lose=0.05, repeat=0.1, reorder=0.2, delay_s=(0, 0.001))


def through(home, seed, covers):
    """The suite, and work that shows how often it ran."""
    endpoint = {"rto_s": 0.03, "silence_s": 20}
    node = remote_kit.remote(home, "cpu:c0", air=misbehaving(seed), endpoint=endpoint)
    with node, sp.open("box1/cpu:c0") as device, sp.open("cpu:c0") as local:
        busy_speed(device, busy_speed(local))  # what is lost and repeated would look like work
        failed = [r for r in suite.run(device, covers, seed) if r.status == "failed"]
        assert not failed, f"seed {seed}: {failed[0]}\n{failed[0].message}"
        added_up(device)


def added_up(device):
    """y += x by launches, lists and prepared launches: y counts how often they ran."""
    queue, n = device.default_queue, 1000
    with device.array(np.ones(n, np.float32)) as x, device.array(np.zeros(n, np.float32)) as y:
        add = device.kernel("axpby_f32")
        takes = {"y": y, "x": x, "n": n, "a": 1.0, "b": 1.0, "alpha": 1.0, "beta": 1.0}
        args = [takes[arg.name] for arg in add.args]
        groups = groups_for(add, n)
        again = queue.prepare(add, *args, groups=groups)
        for _ in range(REPEATS):
            again()
            queue.launch(add, *args, groups=groups)
            queue.submit(sp.Commands().dispatch(add, *args, groups=groups).barrier())
        assert (y.numpy() == 3 * REPEATS).all()
        add.close()


def test_each_launch_runs_once(everything):
    added_up(everything)


@pytest.mark.parametrize("seed", [1])
def test_a_wire_that_misbehaves(tmp_path, seed):
    through(tmp_path, seed, SHORT[1:])


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_200_wires_that_misbehave(tmp_path):
    for seed in range(200):
        through(tmp_path, seed, SHORT)


def test_a_context_cuts_work_for_both_machines_and_one_is_killed(tmp_path):
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal((96, 96), np.float32) for _ in range(2))
    air = Air()
    with (
        remote_kit.remote(tmp_path, "cpu:c0", air=air),
        sp.init(["cpu:c1", "box1/cpu:c0"]) as ctx,
    ):
        for how in ({"shards": "each"}, {"devices": ["box1/cpu:c0"]}):
            assert np.allclose(ctx.gemm(a, b, **how), a @ b, rtol=1e-4, atol=1e-4)
        air.kill("box1")
        assert np.allclose(ctx.gemm(a, b, shards="each"), a @ b, rtol=1e-4, atol=1e-4)
