"""Devices without unified memory, kernels that know their grid, times no longer kept, refusals
without a reason.

When this fails, code that is right on the cpu breaks on devices with memory of their own.
"""

import errno
import gc
import os
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv import _hot
from sparkle_drv.backends.abilities import Abilities
from sparkle_drv.backends.cpu import BACKEND
from sparkle_drv.core import fence, launch_errors, registry
from sparkle_drv.core.timestamp import Timestamp


class Discrete(BACKEND):
    """A cpu device that says its memory is not the host's; its fill kernels know their grid."""

    @classmethod
    def open(cls, uri, settings):
        made = cls(settings)
        made.info = replace(made.info, uri="discrete:0", unified=False)
        return made

    def load(self, spec):
        made = super().load(spec)
        return replace(made, groups=("n/256",)) if spec.name.startswith("fill") else made


@pytest.fixture
def discrete():
    registry.register("discrete", lambda: Discrete)
    with sp.open("discrete:0") as dev:
        yield dev
    registry.unregister("discrete")


def test_arrays_of_a_discrete_device_are_copied(discrete):
    with discrete.array(np.arange(6.0).reshape(2, 3)) as a:
        copies = [a.numpy(), np.asarray(a), np.array(a)]
        gc.collect()
        others = [np.zeros(6) for _ in range(20)]
        for host in copies:
            assert (host == np.arange(6).reshape(2, 3)).all()
            host[:] = 9
        assert (a.numpy() == np.arange(6).reshape(2, 3)).all(), "a copy was written through"
        assert len(others) == 20
        with pytest.raises((BufferError, TypeError), match="not host memory"):
            a.__dlpack__()
        with pytest.raises(BufferError, match="not host memory"):
            a.__dlpack_device__()
        with pytest.raises(BufferError, match="not host memory"):
            np.from_dlpack(a)


def test_host_arrays_are_no_arguments_of_a_discrete_device(discrete):
    x = np.zeros(4, np.float32)
    refused = pytest.raises(TypeError, match=r"argument x .* cannot read host arrays")
    with discrete.kernel("copy_f32") as k, discrete.empty(4, np.float32) as y, refused:
        discrete.default_queue.launch(k, y, x, 4, groups=1)


def test_a_kernel_that_knows_its_own_grid(discrete):
    queue = discrete.default_queue
    with discrete.kernel("fill_f32") as k, discrete.buffer(4000) as y:
        for n in (1000, 256, 257, 0):
            queue.launch(k, y, float(n), n).wait()
            queue.fence(queue.prepare(k, y, float(n), n)()).wait()
            queue.submit(sp.Commands().dispatch(k, y, float(n), n)).wait()
            assert (y.read(np.float32, n) == n).all()
        queue.launch(k, y, 5.0, 1000, groups=1).wait()
        assert (y.read(np.float32, 256) == 5).all()
        assert y.read(np.float32, 1000)[999] == 1000
        with pytest.raises(TypeError, match="argument n"):
            queue.launch(k, y, 5.0, None)


def test_launch_shapes_are_remembered_and_forgotten(cpu):
    with cpu.kernel("fill_f32") as k, cpu.buffer(400) as y:
        for size in range(1, 700):
            last = cpu.default_queue.launch(k, y, float(size), 100, groups=100, group_size=size)
        last.wait()
        for groups in range(1, 700):
            last = cpu.default_queue.launch(k, y, float(groups), 100, groups=groups)
        last.wait()
        assert (y.read(np.float32, 100) == 699).all()


def test_only_so_many_times_are_kept(cpu):
    with cpu.queue(timing=True) as queue, cpu.kernel("noop") as k:
        first = queue.launch(k, groups=1)
        assert first.time_ns >= 0
        for _ in range(4096):
            last = queue.launch(k, groups=1)
        assert last.time_ns >= 0
        with pytest.raises(ValueError, match="no times of submission 1"):
            first.time_ns  # noqa: B018
        with pytest.raises(ValueError, match="no times of submission 0"):
            queue.fence(0).time_ns  # noqa: B018


def test_another_process_id(cpu, monkeypatch):
    dev = sp.open("cpu")
    buffer = dev.buffer(4)
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: -1)
        with pytest.raises(sp.DeviceLost, match="forked"):
            dev.buffer(4)
        with pytest.raises(sp.DeviceLost, match="forked"):
            buffer.view()
        dev.close()
    dev.close()
    assert buffer.closed
    assert cpu.buffer(4).nbytes == 4


@pytest.mark.parametrize(
    ("rc", "kind", "says"),
    [
        (-errno.ENOMEM, sp.OutOfDeviceMemory, "launch of fill_f32"),
        (-errno.EIO, sp.DriverCallError, "EIO"),
        (-errno.ECANCELED, sp.DeviceLost, "closed or gone"),
        (0, ValueError, "without a known reason"),
    ],
)
def test_a_healthy_launch_that_is_refused_all_the_same(cpu, rc, kind, says):
    with cpu.kernel("fill_f32") as k, cpu.buffer(40) as y:
        record = _hot.pack(cpu, k, (y, 1.0, 10), 1, None, 0)
        with pytest.raises(kind, match=says):
            launch_errors.refused_by_backend(cpu, k, (y, 1.0, 10), (1, None, 0), record, rc)


def test_a_submission_lost_for_no_reason(cpu, monkeypatch):
    lost = ((0, sp.DriverCallError, "EPROTO"), (-errno.ENOMEM, sp.OutOfDeviceMemory, "memory"))
    for value, kind, says in lost:
        with monkeypatch.context() as patched, cpu.queue() as queue:
            patched.setattr(cpu._backend, "submit", lambda *_, value=value: value)
            patched.setattr(queue, "_in_c", False)
            with pytest.raises(kind, match=f"submit: .*{says}"):
                queue.submit(sp.Commands())


def test_extents_beyond_64_bits_and_without_sense(cpu):
    most = 2**32 - 1
    beyond = pytest.raises(ValueError, match=r"argument c .* does not fit into 64 bits")
    with cpu.kernel("gemm_f32") as gemm, cpu.buffer(400) as x, beyond:
        cpu.default_queue.launch(gemm, x, x, x, None, most, 1, 1, 1, 1, 1, 1, most, 0)
    senseless = pytest.raises(ValueError, match=r"argument y .* has no valid value")
    with cpu.kernel("nchw_to_blocked_f32") as layout, cpu.buffer(400) as x, senseless:
        cpu.default_queue.launch(layout, x, x, 1, 1, 1, 1, 0)


@pytest.mark.parametrize(
    ("rc", "kind"),
    [
        (-errno.ECANCELED, sp.DeviceLost),
        (-errno.ENODEV, sp.DeviceLost),
        (-errno.EIO, sp.KernelFault),
    ],
)
def test_what_a_wait_may_meet(rc, kind):
    queue = SimpleNamespace(
        _backend=SimpleNamespace(wait=lambda *_: rc), _handle=None,
        _device=SimpleNamespace(uri="gpu:0", _abilities=Abilities(None)), reached=0, timeout_s=1,
    )  # fmt: skip
    with pytest.raises(kind, match="gpu:0"):
        fence.Fence(queue, 1).wait()


def test_a_timestamp_lives_where_the_host_can_read(cpu):
    with cpu.buffer(8) as device_memory, pytest.raises(ValueError, match="host memory"):
        Timestamp(device_memory)


def test_other_buffers_than_arrays(cpu):
    queue = cpu.default_queue
    with cpu.buffer(20) as b:
        queue.write(b, b"0123456789").wait()
        queue.write(b.view(10), memoryview(b"a-b-c-d-e-")[::2]).wait()
        into = bytearray(15)
        queue.read(b, into).wait()
        assert into == b"0123456789abcde"
        queue.write(b, b"").wait()
        queue.read(b, bytearray()).wait()
        with pytest.raises(ValueError, match="out"):
            queue.read(b, b"read only")
        with pytest.raises(ValueError, match="out: expected a C-contiguous"):
            queue.read(b, memoryview(bytearray(20))[::2])
        with pytest.raises(TypeError, match="elements of a fixed size"):
            queue.write(b, np.array([None]))


def test_peers_must_be_of_one_backend(cpu):
    class Other(BACKEND):
        @classmethod
        def open(cls, uri, settings):
            made = cls(settings)
            made.info = replace(made.info, uri="other:0", backend="other")
            return made

    registry.register("other", lambda: Other)
    with sp.open("other:0") as other, other.buffer(8) as src, cpu.buffer(8) as dst:
        with pytest.raises(ValueError, match="different backends"):
            cpu.default_queue.copy_peer(dst, src)
        with pytest.raises(ValueError, match="other has no saxpy_f32, only cpu"):
            other.kernel("saxpy_f32")
    registry.unregister("other")


def test_misaligned_host_arrays(cpu):
    odd = np.zeros(41, np.uint8)[1:].view(np.float32)
    y = np.ones(10, np.float32)
    with cpu.kernel("copy_f32") as k, pytest.raises(ValueError, match=r"argument x .*align"):
        cpu.default_queue.launch(k, y, odd, 10, groups=1)
    assert (y == 1).all()
