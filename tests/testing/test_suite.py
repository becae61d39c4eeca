"""The conformance suite itself: it finds each backend with one planted defect.

When this fails, the conformance suite passes a broken plug-in.
"""

import struct
from dataclasses import replace

import pytest
from sparkle_drv._native import ffi, lib

import sparkle_drv as sp
from sparkle_drv.backends.cpu import BACKEND
from sparkle_drv.core import registry
from sparkle_drv.core.abi import records
from sparkle_drv.testing import suite
from sparkle_drv.testing.checks import base, problems, timeouts


def poke(address, value=0xEE, nbytes=1):
    ffi.memmove(ffi.cast("char *", address), bytes([value]) * nbytes, nbytes)


def pointer(record, index):
    """(address, bytes covered) of a pointer argument that leads the argument list."""
    at = records.DISPATCH_HEAD.size
    args_nbytes = records.DISPATCH_HEAD.unpack_from(record)[-1]
    address = struct.unpack_from("=Q", record, at + 8 * index)[0]
    return address, struct.unpack_from("=Q", record, at + args_nbytes + 8 * index)[0]


class Mutant(BACKEND):
    """A cpu device of another name; subclasses break one thing."""

    def __init__(self, settings):
        super().__init__(settings)
        self.info = replace(self.info, uri="mutant:0")

    @classmethod
    def open(cls, uri, settings):
        return cls(settings)


class DirtyMemory(Mutant):
    def alloc(self, nbytes, memory):
        made = super().alloc(nbytes, memory)
        poke(made.address, nbytes=min(nbytes, 64))
        return made


class WrongKernel(Mutant):
    def load(self, spec):
        return super().load(replace(spec, entry=spec.entry.replace("abs_", "neg_")))


class Touching(Mutant):
    """Writes a byte where it should not after each launch that has arguments."""

    least = 24  # bytes of a pointer, a number and what is behind the pointer

    def __init__(self, settings):
        super().__init__(settings)
        run = self.launch

        def launch(queue, record, nbytes, epoch):
            value = run(queue, record, nbytes, epoch)
            if value > 0 and nbytes >= records.DISPATCH_HEAD.size + self.least:
                lib.sp_cpu_wait(queue, value, 10**10)
                self.touch(bytes(record))
            return value

        self.launch = launch


class WritesBehind(Touching):
    def touch(self, record):
        address, nbytes = pointer(record, 0)
        poke(address + nbytes)


class WritesBefore(Touching):
    def touch(self, record):
        poke(pointer(record, 0)[0] - 1)


class WritesInput(Touching):
    least = 40  # a second pointer

    def touch(self, record):
        address, nbytes = pointer(record, 1)
        if nbytes >= 4:
            poke(address)


class LastElementWrong(Touching):
    def touch(self, record):
        address, nbytes = pointer(record, 0)
        if nbytes:
            poke(address + nbytes - 1, 0x11)


class ImpatientWait(Mutant):
    def __init__(self, settings):
        super().__init__(settings)
        self.wait = lambda queue, value, timeout_ns: 0


class EarlyReached(Mutant):
    """Lets core free what is in use; keeps it all the same, for this process must live."""

    def __init__(self, settings):
        super().__init__(settings)
        self.reached = self.submitted
        self.kept = []
        self.free = self.unload = self.kept.append


class Backwards(Mutant):
    def __init__(self, settings):
        super().__init__(settings)
        run = self.submit

        def submit(queue, raw, nbytes, epoch):
            parts = list(records.split(bytes(ffi.buffer(raw, nbytes)) if nbytes else b""))
            return run(queue, b"".join(r for _, _, r in reversed(parts)), nbytes, epoch)

        self.submit = submit


class IgnoresWaits(Mutant):
    def __init__(self, settings):
        super().__init__(settings)
        run = self.submit

        def submit(queue, raw, nbytes, epoch):
            parts = records.split(bytes(ffi.buffer(raw, nbytes)) if nbytes else b"")
            kept = b"".join(r for _, kind, r in parts if kind != records.WAIT)
            return run(queue, kept, len(kept), epoch)

        self.submit = submit


class Leaky(Mutant):
    kept = []  # noqa: RUF012

    def free(self, handle):
        self.kept.append(handle)


class Credulous(Mutant):
    def check(self, record, nbytes):
        return 0


class NoTime(Mutant):
    def times(self, queue, value):
        return 5, 5


class NoWords(Mutant):
    def describe(self, queue, value):
        return None


class ForgetsPatches(Mutant):
    """Runs a list of two dispatches (busy_u32, then fill_f32) as it was first submitted."""

    def __init__(self, settings):
        super().__init__(settings)
        run, first = self.submit, []

        def submit(queue, raw, nbytes, epoch):
            held = bytes(ffi.buffer(raw, nbytes)) if nbytes else b""
            if [kind for _, kind, _ in records.split(held)] == [records.DISPATCH] * 2:
                held = first[0] if first else held
                first.append(held)
            return run(queue, held, len(held), epoch)

        self.submit = submit


class NoExport(Mutant):
    def export(self, handle):
        raise NotImplementedError("no descriptors here")


class Discrete(Mutant):
    """Memory that the host cannot use in place: the other half of core."""

    def __init__(self, settings):
        super().__init__(settings)
        self.info = replace(self.info, unified=False)


class Bare(Mutant):
    """A plug-in for which the manifest has nothing."""

    def __init__(self, settings):
        super().__init__(settings)
        self.info = replace(self.info, backend="bare")


@pytest.fixture
def mutant():
    def judged(kind, covers=()):
        registry.register("mutant", lambda: kind)
        return {r.name: r for r in suite.run("mutant:0", covers)}

    yield judged
    registry.unregister("mutant")
    Leaky.kept.clear()


@pytest.mark.parametrize(
    ("kind", "name", "says"),
    [
        (DirtyMemory, "memory: each kind is zeroed aligned and counted", "not zeroed"),
        (WrongKernel, "kernels: abs_f32", "was expected"),
        (WrongKernel, "kernels: abs_i32", "was expected"),
        (WritesBehind, "kernels: copy_f32", "behind an operand were written"),
        (WritesBefore, "kernels: saxpy_f32", "before an operand were written"),
        (WritesInput, "kernels: vecadd_f64", "the input x was written"),
        (LastElementWrong, "kernels: gemm_f32", "was expected"),
        (LastElementWrong, "kernels: reduce_sum_i32", "was expected"),
        (LastElementWrong, "kernels: busy_u32", "was expected"),
        (LastElementWrong, "kernels: strided_u64", "was expected"),
        (LastElementWrong, "strided: transposes", "View(shape="),
        (WritesInput, "kernels: strided_u16", "the input src was written"),
        (ImpatientWait, "timeouts: a wait times out and tells the submission", "after its wait"),
        (ImpatientWait, "lists: timestamps in a list", "after its wait"),
        (EarlyReached, "lifetime: a buffer closed in flight", "Error"),
        (Backwards, "lists: a list runs in order", "Error"),
        (IgnoresWaits, "lists: waiting for another queue", "Error"),
        (Leaky, "memory: a megabyte survives a round trip", "objects are left alive"),
        (Credulous, "arguments: arguments of a launch", "Error"),
        (NoTime, "launch: times of a timing queue", "0 ns"),
        (
            NoWords,
            "timeouts: a wait times out and tells the submission",
            "that names its submission",
        ),
        (ForgetsPatches, "patch: patch leaves earlier submissions alone", "other arguments"),
    ],
)
def test_a_planted_defect_is_found(mutant, monkeypatch, kind, name, says):
    registry.register("mutant", lambda: kind)
    (check,) = (c for c in suite.checks() if c.name == name)
    monkeypatch.setattr(timeouts, "LONGER", (0.05,))
    monkeypatch.setattr(suite, "checks", lambda covers=(): [check])
    (result,) = suite.run("mutant:0")
    assert result.status == "failed"
    assert says in result.message
    assert str(result).startswith(f"failed       {name} (")


def test_the_mutant_without_a_defect_passes(mutant):
    wrong = [
        r for r in mutant(Mutant, ["memory", "lists", "patch"]).values() if r.status != "passed"
    ]
    assert wrong == []


def test_a_device_without_unified_memory(mutant):
    results = mutant(Discrete)
    assert [f"{r}\n{r.message}" for r in results.values() if r.status == "failed"] == []
    missing = {n for n, r in results.items() if r.status == "not provided"}
    assert missing == {
        "memory: wrapped host memory is shared both ways",
        "arguments: read only host memory",
    }


def test_a_device_without_kernels(mutant):
    results = mutant(Bare)
    kernels = [r for n, r in results.items() if n.startswith("kernels: ")]
    assert {r.status for r in kernels} == {"not provided"}
    assert "expected a kernel saxpy_f32 for bare" in results["kernels: saxpy_f32"].message
    assert results["memory: views see their parent"].status == "passed"


def test_what_cannot_be_exported_is_not_provided(mutant):
    result = mutant(NoExport, ["memory"])["memory: shared memory through a descriptor"]
    assert (result.status, "no descriptors here" in result.message) == ("not provided", True)


def test_checks_are_named_once_and_grouped():
    found = suite.checks()
    assert len({check.name for check in found}) == len(found) > 100
    groups = {check.covers for check in found}
    assert groups >= {
        "kernels", "memory", "launch", "lists", "patch", "fences", "timeouts", "pipeline",
        "lifetime", "threads", "arguments",
    }  # fmt: skip
    assert {check.covers for check in suite.checks(["patch", "fences"])} == {"patch", "fences"}
    with pytest.raises(ValueError, match="covers: expected one of kernels, "):
        suite.checks(["speed"])


def test_every_module_of_checks_takes_part():
    for module in suite.MODULES:
        assert any(c.function.__module__ == module.__name__ for c in suite.checks()), module


def test_a_run_on_an_open_device_leaves_it_open(cpu):
    results = suite.run(cpu, ["fences"], seed=7)
    assert [f"{r}\n{r.message}" for r in results if r.status != "passed"] == []
    assert not cpu.closed


def test_no_such_device():
    with pytest.raises(sp.DeviceNotFound):
        suite.run("quantum:0")


def test_seeds_are_told_and_repeat():
    base.fix_seed(11)
    try:
        with base.seeded() as one, base.seeded() as two:
            assert one.random() == two.random()
        with pytest.raises(AssertionError, match=r"wrong \(seed 11\)"), base.seeded():
            raise AssertionError("wrong")
    finally:
        base.fix_seed(None)
    with base.seeded() as one, base.seeded() as two:
        assert one.random() != two.random()


def test_raises_wants_the_right_error_with_the_right_words():
    with base.raises(ValueError, TypeError, says="x"):
        raise TypeError("it is x")
    without = pytest.raises(
        AssertionError, match="expected 'y' in the message, got TypeError: it is x"
    )
    with without, base.raises(TypeError, says="y"):
        raise TypeError("it is x")
    nothing = pytest.raises(AssertionError, match=r"expected ValueError with 'z' .* got no error")
    with nothing, base.raises(ValueError, says="z"):
        pass
    with pytest.raises(KeyError), base.raises(ValueError):
        raise KeyError


def test_every_kernel_of_the_manifest_has_problems():
    from sparkle_drv import assets

    for name in assets.manifest()["kernels"]:
        assert problems.problems(name)
    with pytest.raises(KeyError, match="no launches for the kernel 'newest_f32'"):
        problems.problems("newest_f32")


@pytest.mark.parametrize(
    ("text", "want"),
    [("n", 7), ("n*m+1", 15), ("n/m", 4), ("(n-m)*2", 10), ("m-n", 0), ("span(m, n, 3, 1)", 10),
     ("span(0, n, 3, 1)", 0), ("span(m, n, 0, 1)", 0)],
)  # fmt: skip
def test_extents_by_other_means(text, want):
    assert problems.extent(text, {"n": 7, "m": 2}) == want
    with pytest.raises(ValueError, match="extent: expected names"):
        problems.extent("n % m", {"n": 7, "m": 2})
