"""One fake driver a process; each test begins with fresh primary contexts and no injections.

It is a copy of the library: the tests here reset contexts and count what is alive, while the shared
`cuda` device of tests/conftest.py may be open on the library itself in the same process.
"""

import ctypes
import shutil

import fakecuda
import pytest
from fakekit import Fake, library


@pytest.fixture(scope="session")
def loaded(tmp_path_factory) -> Fake:
    fakecuda.elsewhere()  # a copy that is there would be found by its SONAME
    fake = Fake(shutil.copy(library(), tmp_path_factory.mktemp("fake_cuda")))
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
