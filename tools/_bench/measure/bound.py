"""Puts a job on a device: its buffers between guard bands, its kernel, its queue, and the check of
its outputs.

Every operand lies in the middle of a larger buffer whose ends hold a pattern. `check` writes new
inputs, poisons the outputs, launches once and compares everything. timing.py launches the same
prepared arguments. Called by engine.py.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from _bench.jobs.fills import Array
from _bench.jobs.job import Absent, Job, Operand, Scalar

from . import verify
from .verify import Verdict

if TYPE_CHECKING:
    import sparkle_drv as sp

BAND_NBYTES = (
    # The bytes of a guard band: four pages. An index that is wrong by one row, of some thousand
    # elements, still hits the band. Views stay page-aligned.
    16384
)
LAUNCH_TIMEOUT_S = 120.0
LOADS, LAUNCHES, JUDGES, TIMES = "loads", "launches", "judges", "times"


def unheard(kernel: str, step: str) -> None:
    """Does nothing. This is the default of `announce`."""


announce = unheard
"""A function that is called before each step (LOADS to TIMES) with its kernel; "" for any
kernel. child.py sets it."""
# seconds to wait for a queue that is closed after a failure; a longer wait would not help if a
# kernel hangs
LEAVE_S = 1.0


@dataclass(frozen=True)
class Guarded:
    """The memory of one operand. The kernel gets `view`; `whole` also contains the guard bands on
    both sides.
    """

    operand: Operand
    whole: sp.Buffer
    view: sp.Buffer

    def write_bands(self, pattern: Array) -> None:
        self.whole.write(pattern, 0)
        self.whole.write(pattern, BAND_NBYTES + self.operand.nbytes)

    def check_bands(self, pattern: Array) -> list[Verdict]:
        """Compares both guard bands with the pattern. Returns their verdicts."""
        ends = (("before", 0), ("behind", BAND_NBYTES + self.operand.nbytes))
        return [
            verify.band_intact(
                self.operand.name, side, pattern, self.whole.read(np.uint8, (BAND_NBYTES,), offset)
            )
            for side, offset in ends
        ]

    def read(self) -> Array:
        found: Array = self.view.read(self.operand.dtype, self.operand.shape)
        return found


class Placement:
    """One set of a job's operands on the device, and the launch arguments made of them. Cold timing
    rotates through several sets.
    """

    def __init__(self, job: Job, device: sp.Device, stack: ExitStack) -> None:
        self.guarded: dict[str, Guarded] = {}
        for operand in job.operands:
            whole = stack.enter_context(device.buffer(operand.nbytes + 2 * BAND_NBYTES))
            view = whole.view(BAND_NBYTES, operand.nbytes)
            self.guarded[operand.name] = Guarded(operand, whole, view)
        self.arguments = [self._argument(arg) for arg in job.args]

    def _argument(self, arg: Operand | Scalar | Absent) -> Any:
        if isinstance(arg, Operand):
            return self.guarded[arg.name].view
        return arg.value if isinstance(arg, Scalar) else None


def timed(device: sp.Device) -> sp.Queue:
    """Returns a queue with timing, or a plain queue if the device has no clock."""
    import sparkle_drv as sp

    try:
        return device.queue(timing=True)
    except sp.SparkleError as error:
        if type(error) is not sp.SparkleError:  # a subclass does not mean "the device has no clock"
            raise
        return device.queue()


def device_ns(fence: sp.Fence, host_ns: float) -> float:
    """Returns the device's time of a submission, or `host_ns` if the device has no clock."""
    return float(fence.time_ns if fence.queue.timing else host_ns)


@contextmanager
def timing_queue(device: sp.Device) -> Iterator[sp.Queue]:
    """Opens a queue with timing. After a failure nothing waits for the queue, because its work may
    never end.
    """
    import sparkle_drv as sp

    queue = timed(device)
    try:
        yield queue
    except BaseException:
        with suppress(sp.SparkleError):
            queue.close(LEAVE_S)
        raise
    queue.close()


class Bound:
    """A job that is loaded on a device, with `nsets` sets of its operands (`placements`).

    It launches on `queue`, or else on a queue of its own. `outputs` holds what the kernel wrote
    in the last `check`. A context manager: leaving it frees the memory, the kernel and the own
    queue.
    """

    def __init__(
        self,
        job: Job,
        device: sp.Device,
        seed: int,
        nsets: int = 1,
        launch_timeout_s: float = LAUNCH_TIMEOUT_S,
        queue: sp.Queue | None = None,
    ) -> None:
        announce(job.kernel, LOADS)
        self.job, self.device, self.seed = job, device, seed
        self.launch_timeout_s = launch_timeout_s
        self.outputs: dict[str, Array] = {}
        self.passed = verify.worst_of([])  # the verdict of the check before timing
        self.launch_options: dict[str, Any] = {"groups": job.groups} if job.groups else {}
        if job.group_size:
            self.launch_options["group_size"] = job.group_size
        with ExitStack() as stack:
            self.kernel = stack.enter_context(closing(job.load(device)))
            # A kernel that was made for one tile plan on this device has a fixed grid.
            if self.kernel.groups:
                self.launch_options = {}
            # The times of an emulated device mean nothing, so its queue has no timing: it sends no
            # packets that write timestamps.
            if queue is None:
                queue = device.queue() if device.info.emulated else timed(device)
                stack.enter_context(closing(queue))
            self.queue = queue
            self.placements = [Placement(job, device, stack) for _ in range(nsets)]
            self._pattern = self._rng(0xBA0D).integers(0, 256, BAND_NBYTES, dtype=np.uint8)
            for placement in self.placements:
                for guarded in placement.guarded.values():
                    guarded.write_bands(self._pattern)
            announce("", TIMES)
            self._stack = stack.pop_all()

    def __enter__(self) -> Bound:
        return self

    def __exit__(self, kind: object, *exc: object) -> None:
        """Closes the job. After a failure it leaves running work and its memory alone, so that the
        original error reaches the caller soon.
        """
        import sparkle_drv as sp

        if kind is not None:
            try:
                self.queue.close(LEAVE_S)
            except sp.SparkleError:
                self._stack.pop_all()
                return
        self._stack.close()

    def _rng(self, stream: int) -> np.random.Generator:
        """Returns a random generator that depends only on seed, row and stream, so that any row can
        be repeated alone.
        """
        row = zlib.crc32(self.job.key.encode())
        return np.random.default_rng([self.seed, row, stream])

    def launch(self, placement: Placement) -> None:
        """Launches the kernel once and waits for its end."""
        announce(self.job.kernel, LAUNCHES)
        fence = self.queue.launch(self.kernel, *placement.arguments, **self.launch_options)
        fence.wait(timeout_s=self.launch_timeout_s)

    def fill(self, phase: int, placement: Placement, poison_stream: int = 0) -> dict[str, Array]:
        """Writes new inputs into the operands that the kernel reads, and poison into the others.
        Returns the bytes that were written, by operand.
        """
        rng = self._rng(1 + phase)
        poison_rng = self._rng(100 + 10 * phase + poison_stream)
        before: dict[str, Array] = {}
        for name, guarded in placement.guarded.items():
            operand = guarded.operand
            if "r" in operand.access:
                values = operand.content(rng, phase)
            else:
                values = operand.poison(poison_rng)
            guarded.view.write(values)
            before[name] = values
        return before

    def fill_all(self) -> None:
        """Writes random inputs into every set of operands, so that timing in any of them runs on
        real data.
        """
        for placement in self.placements:
            self.fill(0, placement)

    def check(self, phase: int) -> Verdict:
        """Writes new inputs, launches once and checks the outputs, the inputs and the guard bands.
        Phase 0 is the check before timing. Phase 1 is the check after timing, with other inputs.
        """
        at = int(self._rng(7).integers(len(self.placements))) if phase else 0
        placement = self.placements[at]
        before = self.fill(phase, placement)
        self.launch(placement)
        intact = [
            v
            for p in self.placements
            for g in p.guarded.values()
            for v in g.check_bands(self._pattern)
        ]
        verdict = verify.worst_of([*intact, *self._inputs_unchanged(placement, before)])
        if verdict.ok:
            verdict = self._outputs(placement, before, phase)
        announce("", TIMES)
        return verdict

    def _inputs_unchanged(
        self, placement: Placement, before: dict[str, Array]
    ) -> Iterator[Verdict]:
        for name, guarded in placement.guarded.items():
            if guarded.operand.access == "r":
                yield verify.unchanged(name, before[name], guarded.read())

    def _outputs(self, placement: Placement, before: dict[str, Array], phase: int) -> Verdict:
        written = [g for g in placement.guarded.values() if g.operand.access != "r"]
        outputs = self.outputs = {g.operand.name: g.operand.numbers(g.read()) for g in written}
        held = {o.name: o.numbers(before[o.name]) for o in self.job.operands}
        values = {**held, **self.job.scalars}
        if self.job.invariant:
            complaint = self.job.invariant(values, outputs)
            return verify.broken(complaint) if complaint else verify.passed(0.0, 0.0)
        if self.job.oracle is None:
            return self._repeatable(placement, outputs, phase)
        announce(self.job.kernel, JUDGES)
        wanted = self.job.oracle(values)
        missing = [name for name in outputs if name not in wanted]
        if missing:
            return verify.broken(f"the oracle gives no value for {', '.join(missing)}")
        return verify.worst_of(
            [
                verify.against(n, got, np.asarray(wanted[n]), self.job.tolerance)
                for n, got in outputs.items()
            ]
        )

    def _repeatable(self, placement: Placement, first: dict[str, Array], phase: int) -> Verdict:
        """Checks a job without an oracle. A second launch has the same inputs, and outputs that
        hold other poison. It must write the same bytes as the first launch.

        The check finds unwritten outputs, kernels that depend on earlier content of memory, and
        races. It does not find a wrong result: the row stays unverified.
        """
        self.fill(phase, placement, poison_stream=1)
        for name, guarded in placement.guarded.items():
            if guarded.operand.access == "w":
                other = np.full(guarded.operand.nbytes, 0x5A, np.uint8).view(guarded.operand.dtype)
                guarded.view.write(other.reshape(guarded.operand.shape))
                still = (
                    np.isnan(first[name]) if first[name].dtype.kind == "f" else np.zeros(1, bool)
                )
                if still.any():
                    at = np.unravel_index(int(np.argmax(still)), first[name].shape)
                    return verify.broken(
                        "NaN in the output: not written, or computed",
                        array=name,
                        first_wrong_index=[int(i) for i in at],
                        expected="a number",
                        got="nan",
                        wrong=int(np.count_nonzero(still)),
                        of=int(still.size),
                    )
        self.launch(placement)
        written = {name: placement.guarded[name] for name in first}
        again = {name: g.operand.numbers(g.read()) for name, g in written.items()}
        return verify.worst_of(
            [
                verify.against(
                    name,
                    again[name].reshape(-1).view(np.uint8),
                    first[name].reshape(-1).view(np.uint8),
                    0.0,
                    "two runs over the same inputs differ (bytes; unwritten output or a race)",
                )
                for name in first
            ]
        )

    def flops(self) -> float:
        """Returns the flops of one launch: the job's own count or, if the job names a
        `flops_output`, the number that the kernel wrote there.
        """
        name = self.job.flops_output
        if name is None:
            return self.job.flops
        return float(self.placements[0].guarded[name].read().reshape(-1)[0])
