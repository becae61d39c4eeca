"""One fake driver a process; each test begins with fresh primary contexts and no injections."""

import ctypes

import pytest
from fakekit import Fake, library


@pytest.fixture(scope="session")
def loaded() -> Fake:
    fake = Fake(library())
    fake.ok("cuInit", 0)
    return fake


@pytest.fixture
def fake(loaded: Fake):
    loaded.control("reset")
    loaded.context(0)
    yield loaded
    loaded.control("reset")
    for ordinal in range(2):
        loaded.ok("cuDevicePrimaryCtxReset_v2", ordinal)
    loaded.ok("cuCtxSetCurrent", ctypes.c_void_p())
    for what in ("contexts", "streams", "events", "modules", "functions", "allocations", "pinned"):
        assert loaded.control(f"live {what}") == 0, what
