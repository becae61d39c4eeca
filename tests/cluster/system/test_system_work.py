"""Work on a node's device by the tools and the API that know nothing of nodes.

When this fails, bench.py, ops or graphs do not work on a node's device.
"""

import re
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from system_kit import ROOT, Node

import sparkle_drv as sp

pytestmark = pytest.mark.cluster


def matrices(n, seed=3):
    rng = np.random.default_rng(seed)
    a, b = (rng.standard_normal((n, n), np.float32) for _ in range(2))
    return a, b, a @ b


@pytest.mark.usefixtures("lent")
def test_bench_verifies():
    tool = ROOT / "tools" / "bench.py"
    line = [sys.executable, tool, "run", "-d", "box1/cpu", "--quick", "--timeout", "0.2"]
    line += ["-a", "n=64K", "saxpy_f32"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=90, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "box1/cpu" in done.stdout
    assert re.search(r"saxpy_f32 .*verified", done.stdout)


@pytest.mark.usefixtures("lent")
def test_a_context_cuts_work_for_both_machines():
    a, b, product = matrices(192)
    with sp.init(["cpu", "box1/cpu"]) as ctx:
        found = ctx.gemm(a, b, shards="each")
    assert np.allclose(found, product, rtol=1e-3, atol=1e-3)


def test_a_context_whose_node_is_killed_in_mid_call(site, box1):
    a, b, product = matrices(1024)
    with Node(box1) as node, site.at(box1=node), sp.init(["cpu", "box1/cpu"]) as ctx:
        ctx.gemm(a, b, shards="each")
        began = time.monotonic()
        ctx.gemm(a, b, shards="each")
        usual_s = time.monotonic() - began
        threading.Timer(usual_s / 3, node.kill).start()
        found = ctx.gemm(a, b, shards="each")
        again = ctx.gemm(a, b, shards="each")
    for each in (found, again):
        assert np.allclose(each, product, rtol=1e-3, atol=1e-2)


@pytest.mark.usefixtures("lent")
def test_a_graph():
    a, b, product = matrices(96)
    with sp.init(["cpu", "box1/cpu"]) as ctx:
        with ctx.graph(devices=["box1/cpu"]) as graph:
            found = graph.map("relu(z)", z=graph.gemm(a, b))
        graph.run()
        assert np.allclose(found.numpy(), np.maximum(product, 0), rtol=1e-3, atol=1e-3)
        assert {task.device for task in ctx.last_plan.tasks} == {"box1/cpu"}


@pytest.mark.usefixtures("lent")
def test_collectives():
    with sp.init(["cpu", "box1/cpu"]) as ctx, ctx.create_mesh() as mesh:
        values = [np.arange(3000, dtype=np.float32) * k for k in (1, 10)]
        arrays = [device.array(x) for device, x in zip(ctx.devices, values, strict=True)]
        mesh.all_reduce(arrays, op="sum")
        assert all((array.numpy() == values[0] * 11).all() for array in arrays)
