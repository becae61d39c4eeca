"""Plans of faults, as data: what fails on a device, and when.

    plan = Schedule(7)                       # drawn from the seed 7
    print(plan)                              # one line for each fault
    assert Schedule.parse(str(plan)) == plan
    plan = Schedule(0, [Fault("job", 3, "hang", recovery="full")])

A fault happens at the n-th event of a kind: the n-th job of a device, or the n-th call to its
driver that allocates, maps, submits, and so on. Plans count events instead of time, so that the
same program meets the same faults again. This module knows no emulator: `emulated_faults.apply`
applies a plan to an emulated card.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Iterable, Iterator
from typing import Any

__all__ = ["EVENTS", "KINDS", "RECOVERIES", "Fault", "Schedule"]

CALLS = ("any", "alloc", "map", "submit", "wait", "context")
EVENTS = ("job", *CALLS)
RECOVERIES = ("ring", "soft", "full", "vram_lost")
NO_RECOVERY = "none"  # the driver never ends the hang; for simulated devices only
# The top bit of the exponent of a float32, 2**30 in an integer: flipping it exceeds any tolerance.
MASK = 0x4000_0000

# The kinds of faults, with their parameters and defaults.
KINDS: dict[str, dict[str, int | str]] = {
    # a call fails, and so do the next count - 1 calls of the same kind
    "fail": {"error": "ENOMEM", "count": 1},
    # the device resets before the call or job that the fault hits; with vram_lost 1 it also loses
    # the contents of VRAM
    "reset": {"vram_lost": 0},
    "unplug": {},  # the device is removed before the call or job: all calls return ENODEV
    "hang": {"recovery": "ring"},  # the job never ends; `recovery` is what the driver does then
    "pagefault": {"va": 0x7FFF_0000_0000},  # the job reads an address that is not mapped
    "slow": {
        "factor": 10,
        "count": 1,
    },  # the job and the next count - 1 jobs take `factor` times as long
    "corrupt": {"mask": MASK, "seed": 0},  # one dword that the job changes is xored with `mask`
}
OF_CALLS = ("fail", "reset", "unplug")
OF_JOBS = ("reset", "unplug", "hang", "pagefault", "slow", "corrupt")


class Fault:
    """A fault `what`, a word of KINDS with its parameters. It happens at the `at`-th (from 1) event
    of the kind `on`.

    Immutable. Raises TypeError or ValueError for invalid words and numbers.
    """

    __slots__ = ("at", "on", "parameters", "what")
    on: str
    at: int
    what: str
    parameters: dict[str, int | str]

    def __init__(self, on: str, at: int, what: str, **parameters: int | str) -> None:
        if what not in KINDS:
            raise ValueError(f"what: expected one of {', '.join(KINDS)}, got {what!r}")
        fit = (("job",) if what in OF_JOBS else ()) + (CALLS if what in OF_CALLS else ())
        if on not in fit:
            raise ValueError(f"on: expected {' or '.join(fit)} for {what}, got {on!r}")
        if isinstance(at, bool) or not isinstance(at, int):
            raise TypeError(f"at: expected an integer, got {type(at).__name__}")
        if not 1 <= at < 2**64:
            raise ValueError(f"at: expected 1 to 2^64 - 1, got {at}")
        unknown = parameters.keys() - KINDS[what].keys()
        if unknown:
            names = ", ".join(KINDS[what]) or "none"
            raise ValueError(f"{what}: expected parameters among {names}, got {min(unknown)!r}")
        given = {**KINDS[what], **parameters}
        for name, value in given.items():
            _check(what, name, value)
        for slot, held in zip(self.__slots__, (at, on, given, what), strict=True):
            object.__setattr__(self, slot, held)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("expected no change of a fault, which is immutable")

    def _key(self) -> tuple[object, ...]:
        return (self.on, self.at, self.what, *sorted(self.parameters.items()))

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Fault) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def __str__(self) -> str:
        said = "".join(f" {k}={_word(k, v)}" for k, v in self.parameters.items())
        return f"{self.on} {self.at}: {self.what}{said}"

    __repr__ = __str__

    @classmethod
    def parse(cls, line: str) -> Fault:
        """Parses a line that `str` made; parameters with default values may be missing. Raises
        ValueError for a line of another form.
        """
        when, colon, rest = line.partition(":")
        words, (what, *pairs) = when.split(), rest.split() or [""]
        if not colon or len(words) != 2 or not words[1].isdigit():
            raise ValueError(f"expected 'EVENT NUMBER: WHAT NAME=VALUE ...', got {line!r}")
        parameters: dict[str, int | str] = {}
        for pair in pairs:
            name, equals, value = pair.partition("=")
            if not equals:
                raise ValueError(f"{line!r}: expected NAME=VALUE, got {pair!r}")
            if name not in KINDS.get(what, {}) or name in parameters:
                known = ", ".join(KINDS.get(what, {})) or "none"
                raise ValueError(
                    f"{line!r}: expected parameters of {what} ({known}), each at most once, "
                    f"got {name!r}"
                )
            parameters[name] = int(value, 0) if value[:1].isdigit() else value
        try:
            return cls(words[0], int(words[1]), what, **parameters)
        except TypeError as error:  # raised for a word in place of a number
            raise ValueError(f"{line!r}: {error}") from None


def _word(name: str, value: int | str) -> str:
    return f"{value:#x}" if name in ("mask", "va") and isinstance(value, int) else str(value)


def _check(what: str, name: str, value: Any) -> None:
    words = {"error": errno.errorcode.values(), "recovery": (*RECOVERIES, NO_RECOVERY)}.get(name)
    if words is not None:
        if value not in words:
            raise ValueError(f"{what}: {name}: expected one of {', '.join(words)}, got {value!r}")
        return
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{what}: {name}: expected an integer, got {type(value).__name__}")
    least, most = {
        "vram_lost": (0, 1),
        "mask": (1, 2**32 - 1),
        "factor": (1, 10**6),
    }.get(name, (0, 2**64 - 1))
    if not least <= value <= most:
        raise ValueError(f"{what}: {name}: expected {least} to {most}, got {value}")


class Schedule:
    """The faults of one run. `Schedule(seed)` draws 1 to `most` faults.

    The faults happen within the first `jobs` jobs, the first `jobs` calls of one kind, or the first
    `5 * jobs` calls of any kind. With the argument `faults`, the schedule has those faults, and the
    seed is only a name.
    """

    __slots__ = ("faults", "seed")

    def __init__(
        self,
        seed: int,
        faults: Iterable[Fault] | None = None,
        *,
        kinds: Iterable[str] = tuple(KINDS),
        jobs: int = 20,
        most: int = 4,
    ) -> None:
        self.seed = seed
        if faults is None:
            rng, allowed = random.Random(seed), tuple(kinds)
            if not allowed or set(allowed) - KINDS.keys() or jobs < 1 or most < 1:
                raise ValueError(
                    f"expected kinds of faults among {', '.join(KINDS)}, and `jobs` and `most` of "
                    f"at least 1, got {allowed}, {jobs} and {most}"
                )
            faults = [_drawn(rng, rng.choice(allowed), jobs) for _ in range(rng.randint(1, most))]
        self.faults = tuple(faults)

    def __iter__(self) -> Iterator[Fault]:
        return iter(self.faults)

    def __len__(self) -> int:
        return len(self.faults)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Schedule):
            return NotImplemented
        return (self.seed, self.faults) == (other.seed, other.faults)

    def __hash__(self) -> int:
        return hash((self.seed, self.faults))

    def __str__(self) -> str:
        return "\n".join([f"schedule {self.seed}", *map(str, self.faults)])

    __repr__ = __str__

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of faults in this schedule."""
        return frozenset(fault.what for fault in self.faults)

    @classmethod
    def parse(cls, text: str) -> Schedule:
        """Parses a text that `str` made. Ignores empty lines and text after a #. Raises
        ValueError for a text of another form.
        """
        lines = [line.partition("#")[0].strip() for line in text.splitlines()]
        head, *rest = [line for line in lines if line] or [""]
        word, _, seed = head.partition(" ")
        if word != "schedule" or not seed.strip().isdigit():
            raise ValueError(f"expected 'schedule SEED' first, got {head!r}")
        return cls(int(seed), [Fault.parse(line) for line in rest])


def _drawn(rng: random.Random, what: str, jobs: int) -> Fault:
    """Draws one fault of kind `what`. Early calls and jobs are hit more often than late ones."""
    on = rng.choice([*(CALLS if what in OF_CALLS else ()), *(("job",) if what in OF_JOBS else ())])
    error = rng.choice(("ENOMEM", "EINTR", "EAGAIN"))
    if what == "fail" and error == "ENOMEM" and on == "any":
        # ENOMEM is not drawn for "any", which is CALLS[0] and includes calls that close something:
        # a kernel driver needs no memory for these, so they cannot fail with ENOMEM.
        on = rng.choice(CALLS[1:])
    at = 1 + int((5 * jobs if on == "any" else jobs) * rng.random() ** 2)
    match what:
        case "fail":
            count = {"ENOMEM": 3, "EINTR": 200, "EAGAIN": 10}[error]
            return Fault(on, at, what, error=error, count=rng.randint(1, count))
        case "reset":
            return Fault(on, at, what, vram_lost=rng.randint(0, 1))
        case "hang":
            return Fault(on, at, what, recovery=rng.choice(RECOVERIES))
        case "pagefault":
            return Fault(on, at, what, va=rng.randrange(1, 2**34) << 12)
        case "slow":
            return Fault(on, at, what, factor=rng.randint(2, 20), count=rng.randint(1, 10))
        case "corrupt":
            return Fault(on, at, what, mask=MASK, seed=rng.randrange(2**32))
        case _:
            return Fault(on, at, what)
