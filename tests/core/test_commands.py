"""Command lists as data: what is recorded, when it is encoded again, and how patching finds its
place. What they do on a device is the conformance suite's.

When this fails, a patched command list runs with old arguments.
"""

import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv import _hot
from sparkle_drv.core import commands as module
from sparkle_drv.core.abi import records


@pytest.fixture
def parts(cpu):
    """The device, a kernel, two buffers, in a list that is emptied in the end: pytest keeps it."""
    with cpu.kernel("fill_f32") as k, cpu.buffer(256) as a, cpu.buffer(256) as b:
        things = [cpu, k, a, b]
        yield things
    things.clear()


def encoded(commands, device):
    view, nbytes, _ = commands._encode(device)
    return bytes(commands._encoded)[:nbytes], view


def test_each_call_appends_one_command_and_returns_the_list(parts):
    dev, k, a, b = parts
    fence = dev.default_queue.submit(sp.Commands())
    stamp = dev.timestamp()
    c = sp.Commands()
    for call in (
        lambda: c.copy(a, b),
        lambda: c.fill(a, 1, 2),
        lambda: c.dispatch(k, a, 1.0, 64, groups=1, group_size=128, shared=0),
        lambda: c.barrier(),
        lambda: c.wait(fence),
        lambda: c.timestamp(stamp),
    ):
        assert call() is c
    kinds = [type(x) for x in c.commands]
    assert kinds == [
        module.CopyCommand, module.FillCommand, module.DispatchCommand, module.BarrierCommand,
        module.WaitCommand, module.TimestampCommand,
    ]  # fmt: skip
    assert len(c) == 6
    assert c.commands[2] == module.DispatchCommand(k, (a, 1.0, 64), 1, 128, 0)
    text = repr(c)
    assert text.startswith("<Commands of 6\n  0: CopyCommand(")
    assert "fill_f32" in text
    with pytest.raises(AttributeError):
        c.commands[1].pattern = 3
    assert not c.overlap
    assert sp.Commands(overlap=True).overlap
    fence.wait()
    stamp.close()


def test_the_encoding_is_the_records_in_order(parts):
    dev, k, a, b = parts
    c = sp.Commands().copy(a, b).fill(b, 7).dispatch(k, a, 2.0, 64, groups=3).barrier()
    raw, _ = encoded(c, dev)
    assert raw == (
        records.copy(a.address, b.address, 256)
        + records.fill(b.address, 256, 7, 4)
        + _hot.pack(dev, k, (a, 2.0, 64), 3, None, 0)
        + records.barrier()
    )
    assert len(raw) % 8 == 0


def test_it_is_encoded_once_until_something_changes(parts):
    dev, _, a, _ = parts
    c = sp.Commands().fill(a, 1)
    _, first = encoded(c, dev)
    assert encoded(c, dev)[1] is first
    dev.buffer(4).close()  # something was closed: look again
    _, second = encoded(c, dev)
    assert second is not first
    c.barrier()
    _, third = encoded(c, dev)
    assert third is not second
    with sp.open("cpu") as other, pytest.raises(ValueError, match="belongs to"):
        c._encode(other)
    assert encoded(c, dev)[0].endswith(records.barrier())


def test_patching_rewrites_the_bytes_in_place(parts):
    dev, k, a, b = parts
    c = sp.Commands().barrier().dispatch(k, a, 1.0, 64, groups=1).dispatch(k, b, 2.0, 64, groups=2)
    before, view = encoded(c, dev)
    c.patch(2, a, 3.0, 32)
    after, same = encoded(c, dev)
    assert same is view
    record = _hot.pack(dev, k, (a, 3.0, 32), 2, None, 0)
    assert after == before[: -len(record)] + record
    assert c.commands[2].args == (a, 3.0, 32)
    assert c.commands[2].groups == 2
    c.patch(-2, b, 4.0, 1)
    assert c.commands[1].args == (b, 4.0, 1)


def test_arrays_stand_for_their_buffers(parts):
    dev, _, a, b = parts
    x = a.array(np.float32, 16)
    c = sp.Commands().copy(x, b.view(0, 64)).fill(x, 5)
    assert c.commands[0].dst is x.buffer
    dev.default_queue.submit(c).wait()
    assert (np.asarray(x).view(np.uint32) == 5).all()


def test_an_empty_list(parts):
    dev = parts[0]
    assert sp.Commands()._encode(dev)[1] == 0
    assert repr(sp.Commands()) == "<Commands of 0>"
