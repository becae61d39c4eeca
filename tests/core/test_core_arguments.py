"""Bad arguments beyond those that the conformance suite judges: element types, numpy in odd places,
and what the messages say.

When this fails, a wrong argument is launched, or its error does not name it.
"""

import re

import numpy as np
import pytest

import sparkle_drv as sp


@pytest.mark.parametrize("dtype", ["f8", "f2", "i4", "u4", ">f4", "c8", "?", "u1"])
def test_an_array_of_other_elements_is_refused(device, dtype):
    n = 4
    with device.kernel("copy_f32") as k, device.empty(n, np.float32) as y:
        with device.array(np.arange(n).astype(dtype)) as x:
            for call in (device.default_queue.launch, device.default_queue.prepare):
                with pytest.raises(TypeError, match=re.escape("argument x (f32*)")):
                    call(k, y, x, 1, groups=1)
                with pytest.raises(TypeError, match=re.escape("argument y (f32*)")):
                    call(k, x, y, 1, groups=1)
            with pytest.raises(TypeError, match="argument x"):
                sp.Commands().dispatch(k, y, x, 1, groups=1)
            if device.info.unified:
                with pytest.raises(TypeError, match="argument x"):
                    device.default_queue.launch(k, y, np.arange(n).astype(dtype), 1, groups=1)
        assert not np.asarray(y).any()


def test_signed_and_unsigned_stand_for_each_other_and_bytes_for_all(device):
    x = np.array([1, -1, 2**31 - 1], np.int32)
    with device.kernel("copy_i32") as k, device.empty(3, np.uint32) as y, device.array(x) as a:
        device.default_queue.launch(k, y, a, 3, groups=1).wait()
        assert (np.asarray(y).view(np.int32) == x).all()
        with device.buffer(12) as raw:
            device.default_queue.launch(k, raw, a, 3, groups=1).wait()
            assert (raw.read(np.int32, 3) == x).all()


def test_numbers_of_numpy_are_numbers(device):
    with device.kernel("fill_f32") as k, device.buffer(400) as y:
        queue = device.default_queue
        for groups in (np.int64(1), (np.int32(1), 1), [1]):
            queue.launch(k, y, np.float64(2.5), np.uint8(100), groups=groups).wait()
        assert (y.read(np.float32, 100) == 2.5).all()
        queue.launch(k, y, True, 100, groups=1, group_size=[*k.group_size]).wait()
        assert (y.read(np.float32, 64) == 1).all()
        for shape in ({"groups": np.array([1, 1])}, {"groups": 1, "group_size": np.array([64])}):
            with pytest.raises(TypeError, match=r"group.*array"):
                queue.launch(k, y, 1.0, 100, **shape)


def test_floats_that_are_not_finite_are_passed_on(device):
    with device.kernel("fill_f32") as k, device.buffer(16) as y:
        for value in (np.nan, np.inf, -np.inf, -0.0, 1e-45):
            device.default_queue.launch(k, y, value, 4, groups=1).wait()
            assert y.read(np.float32, 4).tobytes() == np.full(4, value, np.float32).tobytes()


def test_messages_show_what_was_given(device):
    with device.kernel("saxpy_f32") as k, device.buffer(40) as y:
        launch = device.default_queue.launch
        with pytest.raises(TypeError, match=r"argument x \(f32\*\): .* got list"):
            launch(k, y, list(range(100)), 1.0, 10, groups=1)
        with pytest.raises(TypeError, match=r"saxpy_f32\(f32\* y, f32\* x, f32 a, u32 n\) takes 4"):
            launch(k, y, groups=1)
        with pytest.raises(
            ValueError, match=r"argument n \(u32\): expected 0 to 4294967295, got -3"
        ):
            launch(k, y, y, 1.0, -3, groups=1)
        with pytest.raises(ValueError, match=r"n elements are 44 bytes, the buffer has 40"):
            launch(k, y, y, 1.0, 11, groups=1)
        with pytest.raises(ValueError, match=r"group_size: expected 1 to .* threads on"):
            launch(k, y, y, 1.0, 10, groups=1, group_size=device.info.max_group_size * 2)


def test_host_arrays_that_cannot_be_used_in_place(cpu):
    y = np.zeros(10, np.float32)
    with cpu.kernel("copy_f32") as k:
        launch = cpu.default_queue.launch
        for bad, kind, says in (
            (np.zeros(20, np.float32)[::2], ValueError, "argument x .*C-contiguous"),
            (np.zeros((4, 4), np.float32, order="F"), ValueError, "argument x .*C-contiguous"),
            (np.zeros(9, np.float32), ValueError, "argument x .*40 bytes, the buffer has 36"),
            (np.array([None] * 10), TypeError, "argument x"),
            ("text", TypeError, "argument x"),
            ([0.0] * 10, TypeError, "argument x"),
        ):
            with pytest.raises(kind, match=says):
                launch(k, y, bad, 10, groups=1)
        with pytest.raises(TypeError, match="3 arguments, got 2"):
            launch(k, y, y, groups=1)
        with pytest.raises(ValueError, match="argument n"):
            launch(k, y, y, -1, groups=1)
        launch(k, np.zeros(0, np.float32), np.zeros((0, 3), np.float32), 0, groups=1).wait()


def test_a_routine_that_refuses_its_arguments(cpu):
    with cpu.kernel("gemm_f32") as k, cpu.empty((2, 2), np.float32) as c:
        sizes = (2, 2, 2, 2, 1, 2, 1, 2)
        with pytest.raises(ValueError, match=r"gemm_f32\(.*refused these arguments"):
            cpu.default_queue.launch(k, c, c, c, None, *sizes, 99)
        fence = cpu.default_queue.submit(sp.Commands().dispatch(k, c, c, c, None, *sizes, 99))
        with pytest.raises(sp.KernelFault, match="EINVAL"):
            fence.wait()
        with pytest.raises(sp.KernelFault, match="EINVAL"):
            fence.wait(0)
        assert fence.done
        assert cpu.default_queue.submit(sp.Commands()).wait().done


def test_plans_that_make_no_sense(cpu):
    with pytest.raises(ValueError, match="plan: expected algo"):
        cpu.kernel("gemm_f32", plan=sp.TilePlan("fft"))
    with cpu.kernel("gemm_f32", plan=sp.TilePlan("naive", levels=((8, 8, 8),))) as k:
        assert k.form == "routine"


def test_a_kernel_signature_too_long(cpu):
    with pytest.raises(ValueError, match="at most 48"):
        cpu.kernel(image=b"x", entry="f", args="u32 " * 49)
