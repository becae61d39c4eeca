"""The exceptions, and which of them a native return code becomes.

When this fails, an error of a driver surfaces as the wrong exception.
"""

import errno

import pytest

from sparkle_drv import errors


@pytest.mark.parametrize(
    ("code", "kind", "says"),
    [
        (errno.ECHILD, errors.DeviceLost, "forked"),
        (errno.ESHUTDOWN, errors.DeviceLost, "closed or gone"),
        (errno.ENODEV, errors.DeviceLost, "closed or gone"),
        (errno.ECANCELED, errors.DeviceLost, "closed or gone"),
        (errno.ENOMEM, errors.OutOfDeviceMemory, "out of memory"),
        (errno.EIO, errors.DriverCallError, "EIO"),
        (100_000, errors.DriverCallError, "100000"),
    ],
)
def test_codes_become_errors(code, kind, says):
    with pytest.raises(kind, match=f"gpu:0: frobnicate.*{says}") as caught:
        errors.check(-code, "frobnicate", "gpu:0")
    assert isinstance(caught.value, errors.SparkleError)
    if kind is errors.DriverCallError:
        assert caught.value.errno == code


@pytest.mark.parametrize("rc", [0, 1, 2**40])
def test_what_is_no_error_comes_back(rc):
    assert errors.check(rc, "call") == rc


def test_without_a_device_the_call_alone_is_named():
    with pytest.raises(errors.OutOfDeviceMemory, match=r"^call: out of memory"):
        errors.check(-errno.ENOMEM, "call")


def test_the_tree():
    for name, also in {
        "DeviceNotFound": Exception,
        "DeviceLost": Exception,
        "OutOfDeviceMemory": MemoryError,
        "FenceTimeout": TimeoutError,
        "KernelFault": Exception,
        "ImageError": ValueError,
        "DriverCallError": OSError,
    }.items():
        kind = getattr(errors, name)
        assert issubclass(kind, errors.SparkleError)
        assert issubclass(kind, also)
        assert kind.__doc__


def test_a_timeout_carries_the_submission():
    error = errors.FenceTimeout("late", "  0: dispatch noop()")
    assert error.submission == "  0: dispatch noop()"
    assert str(error) == "late\n  0: dispatch noop()"
    assert str(errors.FenceTimeout("late")) == "late"
