"""The `device` fixture: each test that asks for it runs once for every device, or for those that
`--device=URI` (may be repeated) names. A module's mark `devices` says which those are (uris.py).

A device is opened once per session, lent to one test after another, and must come back clean: idle,
and with no more objects alive than before.

cuda:0 is the fake driver's (tests/fake_cuda), opened in this process, unless `--device=cuda:0` asks
for it by name: then it is the machine's own. SPARKLE_LIBCUDA is set while it is opened and at no
other time, so that child processes know nothing of it; in this process, discovery lists it from
then on. Tests of looking for a driver use children (fakecuda.py).
"""

from __future__ import annotations

import gc
import importlib
import os
import pkgutil
import signal
import sys
from collections import defaultdict
from contextlib import contextmanager, suppress

import fakecuda
import isas
import pytest
import uris
from hypothesis import HealthCheck, settings
from userlib import Compiler
from watchdog import Watchdog

import sparkle_drv as sp
import sparkle_drv.testing  # makes emu: and sim: known

# SPARKLE_REQUIRE=egl: without a GL its tests fail instead of being skipped.
REQUIRED = os.environ.get("SPARKLE_REQUIRE", "").split(",")


# The same examples in each run (--hypothesis-profile=default looks for others), and none fails
# because the machine had something else to do.
settings.register_profile(
    "tests", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("tests")

WATCHDOG = pytest.StashKey[Watchdog]()
# Folders of tests of other code than sparkle_drv/. Other tests run the same lines of sparkle_drv/.
OTHERS = ("benchmarks", "tools/bench", "tools/bringup", "tools/kernel")
VARIANTS = 16  # so many variants of a test, evenly spread, are measured at most
HANGS_AFTER_S = 60  # after a test's own timeout


def pytest_configure(config):
    """Started in the background by a shell, a process has SIGINT ignored, and so have its children:
    the tests of Ctrl-C would wait for what cannot come."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.stash[WATCHDOG] = Watchdog()


def pytest_unconfigure(config):
    """The watchdog's process ends."""
    config.stash[WATCHDOG].close()


class Measuring:
    """Stops and starts coverage, which costs 0.4 to 1 times a test's own CPU. In a worker of xdist,
    pytest-cov starts two Coverages, one below the other. Its own mark `no_cover` stops only one.
    """

    def __init__(self):
        self.stopped = []

    def stop(self):
        coverage = sys.modules.get("coverage")
        while coverage and (measuring := coverage.Coverage.current()):
            measuring.stop()
            self.stopped.append(measuring)

    def start(self):
        while self.stopped:
            self.stopped.pop().start()


MEASURING = Measuring()


@pytest.hookimpl(wrapper=True)
def pytest_collection(session):
    """Imports the package with coverage, for its lines outside of functions. Collects without."""
    for module in pkgutil.walk_packages(sp.__path__, "sparkle_drv."):
        if not module.name.endswith(".__main__"):
            with suppress(ImportError):  # no cryptography: only sp.connect needs it
                importlib.import_module(module.name)
    MEASURING.stop()
    try:
        return (yield)
    finally:
        MEASURING.start()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item, nextitem):
    """A test that hangs in C ends its process: xdist names the test and goes on in a new worker."""
    if item.get_closest_marker("unmeasured"):
        MEASURING.stop()
    else:
        MEASURING.start()
    own = item.get_closest_marker("timeout")
    limit = own.args[0] if own else float(item.config.getini("timeout"))
    item.config.stash[WATCHDOG].watch(limit + HANGS_AFTER_S)
    try:
        return (yield)
    finally:
        item.config.stash[WATCHDOG].rest()
        if nextitem is not None and nextitem.path != item.path:
            gc.collect()
            gc.freeze()  # as after collection: what a file leaves alive stays


def pytest_collection_modifyitems(config, items):
    """Two kinds of tests run only when `-m` names them: make test-long and make test-setup. Tests
    whose subject is not the package are not measured, and of a test with many variants only some.
    """
    others = [config.rootpath / "tests" / folder for folder in OTHERS]
    variants = defaultdict(list)
    for item in items:
        variants[item.nodeid.partition("[")[0]].append(item)
        if any(map(item.path.is_relative_to, others)):
            item.add_marker(pytest.mark.unmeasured)
    for of_one in variants.values():
        every = -(-len(of_one) // VARIANTS)
        for i, item in enumerate(of_one):
            if i % every:
                item.add_marker(pytest.mark.unmeasured)
    kinds = [kind for kind in ("long", "setup") if kind not in config.option.markexpr]
    left_out = [item for item in items if any(map(item.get_closest_marker, kinds))]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]


def pytest_collection_finish():
    """What was collected lives as long as the process. Each gc.collect() of a test would walk it,
    which takes half a second.
    """
    gc.collect()
    gc.freeze()


def pytest_addoption(parser):
    parser.addoption(
        "--device", action="append", metavar="URI", help="test only this device; may be repeated"
    )
    parser.addoption(
        "--expressions", type=int, default=100, metavar="N", help="random expressions a device"
    )


def pytest_generate_tests(metafunc):
    for name in {"device", "each_dev"} & set(metafunc.fixturenames):
        own = metafunc.definition.get_closest_marker("devices")
        usual = own.args if own else uris.USUAL
        named = metafunc.config.getoption("--device")
        metafunc.parametrize(name, named or usual, indirect=True)
    mark = metafunc.definition.get_closest_marker("opens")
    if mark and mark.args and "dev" in metafunc.fixturenames:
        metafunc.parametrize("dev", mark.args, indirect=True, scope="module")


@contextmanager
def driver_of(uri: str, named):
    """Opening a cuda device within it opens the fake's, unless its URI was given by --device."""
    with pytest.MonkeyPatch.context() as patch:
        if uri in fakecuda.URIS and uri not in (named or ()):
            fakecuda.elsewhere()
            patch.setenv("SPARKLE_LIBCUDA", fakecuda.library())
        yield


@pytest.fixture(autouse=True)
def the_fake_is_no_device_of_this_machine(request, monkeypatch):
    """A process that has loaded the fake driver would find its devices where none is asked for."""
    parameters = getattr(getattr(request.node, "callspec", None), "params", {})
    asked = {str(parameters.get("device"))}
    names = {name for name in request.fixturenames if name.startswith("cuda")}
    if fakecuda.elsewhere.cache_info().currsize and not names and not asked & {*fakecuda.URIS}:
        found = staticmethod(lambda settings: fakecuda.elsewhere())
        monkeypatch.setattr(fakecuda.CudaBackend, "discover", found)


@pytest.fixture(scope="session")
def opened(request):
    """uri -> the open device. Only a machine without a GL lacks one: then the test is skipped."""
    cache: dict[str, sp.Device | str] = {}
    named = request.config.getoption("--device")

    def get(uri: str) -> sp.Device:
        if uri not in cache:
            try:
                with driver_of(uri, named):
                    cache[uri] = sp.open(uri)
            except sp.DeviceNotFound as error:
                if not uri.startswith("egl:") or "egl" in REQUIRED or named:
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
def each_dev(request, opened):
    """The same for operations, whose caches stay on the device."""
    return opened(request.param)


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


@contextmanager
def own_cpu(request):
    """A cpu device as the mark `opens` asks for it; a parameter names its instruction set."""
    mark = request.node.get_closest_marker("opens")
    isa = getattr(request, "param", None)
    with pytest.MonkeyPatch.context() as patch:
        if isa:
            patch.setenv("SPARKLE_CPU_ISA", isa)
        device = sp.open("cpu", **(mark.kwargs if mark else {}))
    with device:
        assert isa in (None, device.info.isa)
        yield device


@pytest.fixture(scope="module")
def dev(request):
    """A cpu device of the file's own; `opens` may ask for one of each instruction set."""
    with own_cpu(request) as device:
        yield device


@pytest.fixture
def own_dev(request):
    """The same for one test alone, which closes it."""
    with own_cpu(request) as device:
        yield device


@pytest.fixture(scope="module", params=isas.HERE)
def isa_dev(request):
    """A device of each instruction set of this machine, beside the file's `dev`."""
    with own_cpu(request) as device:
        yield device


@pytest.fixture
def cpu(opened):
    """The open cpu device, for what only it does; checked clean as `device` is."""
    yield from lent(opened("cpu"))


@pytest.fixture
def cuda(opened):
    """The same of cuda:0, the fake's."""
    yield from lent(opened("cuda:0"))


@pytest.fixture
def tell(cuda):
    """Commands for the fake driver under cuda:0; all is well again after the test."""
    if cuda.info.name != fakecuda.NAME:
        pytest.skip("needs the fake driver: cuda:0 is a real GPU")
    control = fakecuda.Control(fakecuda.library())
    yield control
    control("reset")


@pytest.fixture
def egl(opened):
    """The same of egl:0."""
    yield from lent(opened("egl:0"))
