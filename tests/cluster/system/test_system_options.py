"""Options of `sparkle node`: code of a client, quotas, nodes that join.

When this fails, an option of `sparkle node` grants more than it says.
"""

import numpy as np
import pytest
from system_kit import Node

import sparkle_drv as sp

pytestmark = pytest.mark.cluster

ADD = b"""\
layout(local_size_x = 64) in;
layout(std430, binding = 0) buffer Y { uint y[]; };
layout(location = 0) uniform uint n;
void main()
{
    uint i = gl_GlobalInvocationID.x;
    if (i < n)
        y[i] += 3u;
}
"""


def ran(device, how, *args, **shape):
    """What y is after the user's own kernel ran on it once."""
    with device.kernel(**how) as k, device.array(np.zeros(2, np.uint32)) as y:
        device.default_queue.launch(k, y, *args, **shape).wait()
        return y.numpy().tolist()


@pytest.fixture
def mark(userlib):
    return {"image": userlib.mark(3), "entry": "mark", "args": "u32*"}


def test_code_of_a_client_that_is_trusted(box, mark):
    assert ran(box, mark, groups=2) == [3, 3]
    shader = {"image": ADD, "entry": "main", "args": "u32* u32"}
    with sp.open("box1/egl:0") as egl:
        assert ran(egl, shader, 2, groups=1) == [3, 3]


def test_code_of_one_that_is_not(site, lent, mark):
    with site.at(site.root / "client-bob", box1=lent), sp.open("box1/cpu") as device:
        with pytest.raises(
            sp.DeviceNotFound, match="box1/cpu: image: expected a client that --trust-code names"
        ):
            device.kernel(**mark)
        device.default_queue.submit(sp.Commands()).wait()


def test_quotas(site, box1):
    only = ("--quota", "memory=1M,queues=2", "--quota", "sessions=2")
    with (
        Node(box1, *only) as node,
        site.at(box1=node),
        sp.open("box1/cpu") as device,
        sp.open("box1/cpu"),
    ):
        x = np.arange(1000, dtype=np.float32)
        with device.array(x) as there:
            assert (there.numpy() == x).all()
            with pytest.raises(sp.OutOfDeviceMemory, match="expected at most 1048576"):
                device.buffer(1 << 20)
        with pytest.raises(ValueError, match="quota queues: expected at most 2, got 1"):
            device.queue()  # another one beside its default queue is its mapped memory's
        with pytest.raises(sp.DeviceNotFound, match="quota sessions: 2 at most, 2 are here"):
            sp.open("box1/cpu")


def test_a_client_reaches_a_node_by_way_of_another(site, box1):
    """box2 joins box1; alice knows only the address of box1."""
    home = site.machine("box2")
    with Node(box1) as first, Node(home, "--join", first.address) as second:
        with site.at(box1=first, box2=first):
            with sp.init(["box1/cpu", "box2/cpu"]) as ctx:
                a = np.arange(64 * 64, dtype=np.float32).reshape(64, 64) / 1000
                assert np.allclose(ctx.gemm(a, a, shards="each"), a @ a, rtol=1e-4)
            second.line("alice: begins")
            with sp.open("box2/cpu") as device:
                second.kill()
                with pytest.raises(sp.DeviceLost):
                    device.default_queue.submit(sp.Commands()).wait(10)
        assert first.ended() == 0
