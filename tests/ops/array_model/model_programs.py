"""Programs of random steps: drawn from a seed, run in threads, and shortened when they fail.

A step is a name and a seed. What it does follows from the seed and from the arrays that exist then,
so a program stays a program when steps are left out.
"""

from __future__ import annotations

import random
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import context_steps
import expression_steps
import write_steps
from memory_model import Skipped
from model_actor import Actor, CommonArrays

import sparkle_drv as sp

ARRAYS = (*expression_steps.MAKING, *write_steps.WRITING)
CONTEXT = (*expression_steps.OF_CONTEXTS, *context_steps.OF_A_CONTEXT)
STEPS = {step.__name__: step for step in (*ARRAYS, *CONTEXT)}
KINDS = ("arrays", "arrays", "arrays", "arrays", "context", "mesh")
MOTIFS = (
    ("busy", "chain", "close_unrelated", "queue_write"),
    ("chain", "close_unrelated", "fill"),
    ("busy", "binary", "close", "pattern"),
    ("nested", "queue_write", "saxpy"),
    ("busy", "nested", "in_place", "repeat"),
    ("loop", "in_place", "read"),
    ("fold", "fold", "setitem"),
    ("on", "nested", "write_copy"),
    ("on", "binary", "refill"),
    ("busy", "busy", "chain", "collective"),
)
"""Steps that one after the other are likely to disturb each other."""
EXTENTS = {"cpu": 512, "egl": 512, "emu": 64}
HANGS_AFTER_S = 100


class Step(NamedTuple):
    thread: int
    name: str
    seed: int


class ModelProgram(NamedTuple):
    """`kind` is "arrays", "context" or "mesh"; `extents` are the rows and columns of a matrix."""

    kind: str
    threads: int
    extents: tuple[int, int]
    steps: tuple[Step, ...]


class Failure(NamedTuple):
    """The log of a program that failed, and the error of the thread that failed first."""

    error: str
    log: tuple[str, ...]

    @property
    def sort(self) -> str:
        """The last line of the error without numbers, to count alike failures."""
        line = self.error.strip().splitlines()[-1]
        return " ".join(word for word in line.split() if not any(c.isdigit() for c in word))[:90]


def drawn(
    seed: int, number: int, uri: str, threads: int, names: tuple[str, ...] = (),
    kinds: tuple[str, ...] = KINDS,
) -> ModelProgram:  # fmt: skip
    """Returns program `number`: half of the steps' names, so that rare ones meet each other."""
    draw = random.Random(f"{seed} {number}")
    kind = draw.choice(kinds)
    count = 1 if kind == "mesh" else draw.choice(range(1, threads + 1))
    pool = [step.__name__ for step in (CONTEXT if kind == "context" else ARRAYS)]
    if kind == "mesh":
        pool = [name for name in pool if name != "publish"] + ["collective"] * 4
    motifs = [motif for motif in MOTIFS if set(motif) <= set(pool)]
    if names:
        pool, motifs = [name for name in pool if name in names], []
    else:
        pool = [*draw.choices(pool, k=len(pool) // 2), "binary", "read", "read"]
        motifs = draw.choices(motifs, k=3)
    most = EXTENTS[uri.partition(":")[0]]
    edge = draw.choice((2, 4, 4, 5, 16, 64, 64, 64)) if draw.random() < 0.95 else most
    rows = min(256, most) if kind == "mesh" and draw.random() < 0.5 else edge
    length = (draw.randint(15, 60) if edge <= 64 else 25) * count
    steps: list[Step] = []
    while len(steps) < length:
        chosen = draw.choice(motifs) if motifs and draw.random() < 0.15 else (draw.choice(pool),)
        thread = draw.randrange(count)
        steps += [Step(thread, name, draw.getrandbits(32)) for name in chosen]
    return ModelProgram(kind, count, (rows, rows), tuple(steps))


class Rig:
    """The devices of a run. They stay open from program to program, and are replaced after one that
    failed. `uri` is the device in question; a mesh has another one beside it.
    """

    def __init__(self, uri: str, rules: Sequence[str] = ()) -> None:
        self.uri, self.rules = uri, rules
        self._opened: dict[str, Any] = {}

    def device(self) -> Any:
        if "device" not in self._opened:
            self._opened["device"] = sp.open(self.uri)
        return self._opened["device"]

    def context(self, kind: str) -> Any:
        if kind not in self._opened:
            other = "emu:gfx1100" if self.uri == "cpu" else "cpu"
            uris = [self.uri, other] if kind == "mesh" else [self.uri]
            self._opened[kind] = sp.init(uris, profile=False, topology="single")
        return self._opened[kind]

    def close(self) -> None:
        for opened in self._opened.values():
            opened.close()
        self._opened.clear()

    def run(self, program: ModelProgram) -> Failure | None:
        """Runs a program and reads every array at its end. None: each element was right."""
        common = CommonArrays(self.rules)
        errors: list[str] = []
        with ExitStack() as stack:
            if program.kind == "mesh":
                context = self.context("mesh")
                mesh = stack.enter_context(context.create_mesh())
                actors = [
                    Actor(device, i, common, program.extents)
                    for i, device in enumerate(context.devices)
                ]
                works = [_mesh_work(program.steps, actors, mesh)]
            else:
                context = self.context("context") if program.kind == "context" else None
                device = self.device() if context is None else context.devices[0]
                actors = [
                    Actor(device, i, common, program.extents, context)
                    for i in range(program.threads)
                ]
                works = [_work(program.steps, actor) for actor in actors]
            _run_all(works, errors)
            if errors:
                return Failure(errors[0], tuple(common.log))
            for actor in actors:
                actor.queue.close()
        return None


def _step(actor: Actor, step: Step) -> None:
    actor.draw = random.Random(step.seed)
    with suppress(Skipped):
        STEPS[step.name](actor)


def _work(steps: tuple[Step, ...], actor: Actor) -> Callable[[threading.Event], None]:
    own = [step for step in steps if step.thread == actor.number]

    def work(stopped: threading.Event) -> None:
        for step in own:
            if stopped.is_set():
                return
            _step(actor, step)
        actor.draw = random.Random(0)
        actor.read_everything()

    return work


def _mesh_work(
    steps: tuple[Step, ...], actors: list[Actor], mesh: Any
) -> Callable[[threading.Event], None]:
    def work(_: threading.Event) -> None:
        for step in steps:
            actor = actors[step.seed % len(actors)]
            if step.name != "collective":
                _step(actor, step)
                continue
            actors[0].draw = random.Random(step.seed)
            with suppress(Skipped):
                context_steps.collective(actors, mesh)
        for actor in actors:
            actor.draw = random.Random(0)
            actor.read_everything()

    return work


def _run_all(works: list[Callable[[threading.Event], None]], errors: list[str]) -> None:
    """Runs the works at once, each in a thread; a single one in this thread."""
    stopped = threading.Event()

    def guarded(work: Callable[[threading.Event], None]) -> None:
        try:
            work(stopped)
        except BaseException:
            errors.append(traceback.format_exc(limit=-12))
            stopped.set()

    if len(works) == 1:
        guarded(works[0])
        return
    barrier = threading.Barrier(len(works))
    threads = [
        threading.Thread(target=lambda work=work: (barrier.wait(), guarded(work)), daemon=True)
        for work in works
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANGS_AFTER_S)
        if thread.is_alive():
            stack = sys._current_frames().get(thread.ident or 0)
            where = "".join(traceback.format_stack(stack)[-8:])
            errors.append(f"{where}Hang: no end after {HANGS_AFTER_S} s")
            return


def fails(rig: Rig, program: ModelProgram, tries: int) -> Failure | None:
    """Runs a program up to `tries` times, until it fails."""
    for _ in range(tries):
        failure = rig.run(program)
        if failure is not None:
            rig.close()
            return failure
    return None


def _shorter(program: ModelProgram) -> Iterator[ModelProgram]:
    """Yields programs with fewer steps or smaller arrays."""
    steps = program.steps
    for thread in range(program.threads if program.threads > 1 else 0):
        yield program._replace(steps=tuple(s for s in steps if s.thread != thread))
    size = max(1, len(steps) // 2)
    while True:
        for start in range(0, len(steps), size):
            yield program._replace(steps=steps[:start] + steps[start + size :])
        if size == 1:
            return
        size //= 2


def shortened(
    rig: Rig, program: ModelProgram, failure: Failure, seconds: float, tries: int
) -> tuple[ModelProgram, Failure]:
    """Returns the shortest failing program found in that time, and its failure. A program of
    threads counts as right only after `tries` runs.
    """
    end, repeats = time.monotonic() + seconds, tries if program.threads > 1 else 2
    progress = True
    while progress and time.monotonic() < end:
        progress = False
        for candidate in _shorter(program):
            if time.monotonic() > end:
                break
            if len(candidate.steps) >= len(program.steps) or not candidate.steps:
                continue
            repeated = fails(rig, candidate, repeats)
            if repeated is not None:
                program, failure, progress = candidate, repeated, True
                break
    return program, failure


@dataclass
class Outcome:
    """What a run of many programs has seen."""

    operations: int = 0
    programs: int = 0
    steps: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[int, int, ModelProgram, Failure]] = field(default_factory=list)
    """(number of the program, operations before its end, the program, its failure)"""


def run(
    uri: str, count: int, seed: int, threads: int = 4, switch: float | None = None,
    most_failures: int = 1, names: tuple[str, ...] = (), kinds: tuple[str, ...] = KINDS,
    first: int = 0, rules: Sequence[str] = (), tell: Callable[[Outcome], None] | None = None,
) -> Outcome:  # fmt: skip
    """Runs programs on the device `uri` until `count` operations are done."""
    outcome, rig = Outcome(), Rig(uri, rules)
    before = sys.getswitchinterval()
    if switch is not None:
        sys.setswitchinterval(switch)
    try:
        while outcome.operations < count and len(outcome.failures) < most_failures:
            number = first + outcome.programs
            program = drawn(seed, number, uri, threads, names, kinds)
            failure = fails(rig, program, 1)
            outcome.programs += 1
            outcome.operations += len(program.steps)
            outcome.steps.update(step.name for step in program.steps)
            if failure is not None:
                outcome.failures.append((number, outcome.operations, program, failure))
            if tell is not None:
                tell(outcome)
    finally:
        sys.setswitchinterval(before)
        rig.close()
    return outcome
