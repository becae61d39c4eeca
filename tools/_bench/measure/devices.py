"""Opens the devices of -d: "cpu,egl:0", "all", or an emulator that is named. Called by every
command that runs kernels.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from _console.problems import NoSuchDevice, UsageError

from .bound import LEAVE_S

if TYPE_CHECKING:
    import sparkle_drv as sp

log = logging.getLogger("sparkle_drv.bench")
_TEST_SCHEMES = ("emu:", "sim:")  # only the import of sparkle_drv.testing registers these schemes


def resolve(spec: str) -> list[str]:
    """Returns the URIs of "cpu,egl:0" or "all" (every usable real device).

    Raises UsageError for an empty URI in the list. Raises NoSuchDevice if "all" finds no device.
    """
    import sparkle_drv as sp

    if spec.strip() == "all":
        uris = [info.uri for info in sp.devices()]
        if not uris:
            raise NoSuchDevice("no usable device; `sparkle.py doctor` says what was tried")
        return uris
    uris = [uri.strip() for uri in spec.split(",")]
    if not all(uris):
        raise UsageError(
            f"-d: expected device URIs separated by commas, such as cpu,egl:0, got {spec!r}"
        )
    return list(dict.fromkeys(uris))


@contextmanager
def opened(uri: str) -> Iterator[sp.Device]:
    """Opens the device and closes it at the end. Raises NoSuchDevice with the reason."""
    import sparkle_drv as sp

    if uri.startswith(_TEST_SCHEMES):
        importlib.import_module("sparkle_drv.testing")
    try:
        device = sp.open(uri)  # type: ignore[attr-defined, unused-ignore]
    except (sp.DeviceNotFound, ValueError) as error:
        raise NoSuchDevice(str(error)) from error
    try:
        yield device
    except BaseException as error:
        _leave(device, error)
        raise
    device.close()


def _leave(device: sp.Device, error: BaseException) -> None:
    """Closes the device after a failure, without waiting for work that may never end. The caller
    reports `error`.
    """
    import sparkle_drv as sp

    try:
        device.close(LEAVE_S)
    except sp.SparkleError as second:
        log.info("%s stays open after %s: %s", device.uri, type(error).__name__, second)
