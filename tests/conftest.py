"""The `device` fixture: each test that asks for it runs once for every device, or for those that
`--device=URI` (may be repeated) names.

A device is opened once per session, lent to one test after another, and must come back clean: idle,
and with no more objects alive than before.
"""

from __future__ import annotations

import gc
import os

import pytest
from userlib import Compiler

import sparkle_drv as sp
import sparkle_drv.testing  # makes emu: known

# Devices that are always there and always run; real GPUs carry pytest.mark.hw.
# The tools run as processes of their own, which do not import sparkle_drv.testing, and they time.
URIS_OF_TOOLS = ["cpu", "egl:0"]
URIS = [*URIS_OF_TOOLS, "emu:gfx1036", "emu:gfx1100"]

# SPARKLE_REQUIRE=egl[,...]: a device that is not there fails its tests instead of skipping them.
REQUIRED = os.environ.get("SPARKLE_REQUIRE", "").split(",")


def pytest_addoption(parser):
    parser.addoption(
        "--device", action="append", metavar="URI", help="test only this device; may be repeated"
    )


def pytest_generate_tests(metafunc):
    if "device" in metafunc.fixturenames:
        usual = URIS_OF_TOOLS if metafunc.definition.path.parent.name == "tools" else URIS
        uris = metafunc.config.getoption("--device") or usual
        metafunc.parametrize("device", uris, indirect=True)


@pytest.fixture(scope="session")
def opened():
    """uri -> the open device; a device that is not there skips the test and says why."""
    cache: dict[str, sp.Device | str] = {}

    def get(uri: str) -> sp.Device:
        if uri not in cache:
            try:
                cache[uri] = sp.open(uri)
            except sp.DeviceNotFound as error:
                if uri.partition(":")[0] in REQUIRED:
                    raise
                cache[uri] = str(error)
        found = cache[uri]
        if isinstance(found, str):
            pytest.skip(found)
        return found

    yield get
    for found in cache.values():
        if not isinstance(found, str):
            found.close()


def leaked(device: sp.Device, before: dict[str, int]) -> dict[str, int]:
    """What is alive now beyond `before`; garbage is collected only when something is."""
    for attempt in range(2):
        after = device.live_counts()
        more = {key: n - before[key] for key, n in after.items() if n > before[key]}
        if not more or attempt:
            return more
        gc.collect()
    raise AssertionError("unreachable")


def lent(dev: sp.Device):
    """Lends a device to one test and checks that it comes back clean."""
    queue = dev.default_queue  # opened at first use, and then it stays
    before = dev.live_counts()
    yield dev
    queue.fence(queue.submitted).wait()
    assert dev.idle, f"{dev.uri}: the test left work in flight"
    assert not leaked(dev, before), f"{dev.uri}: the test left objects alive"


@pytest.fixture
def device(request, opened):
    """An open device by URI, checked clean after the test."""
    yield from lent(opened(request.param))


@pytest.fixture
def fresh(device):
    """A second open device of the same URI, for tests that close or break it."""
    dev = sp.open(device.uri)
    yield dev
    dev.close()


@pytest.fixture(scope="session")
def userlib(tmp_path_factory):
    """Compiles user kernels; see userlib.py."""
    return Compiler(tmp_path_factory.mktemp("userlib"))


@pytest.fixture
def cpu(opened):
    """The open cpu device, for what only it does; checked clean as `device` is."""
    yield from lent(opened("cpu"))


@pytest.fixture
def egl(opened):
    """The same of egl:0."""
    yield from lent(opened("egl:0"))
