"""Arrays that wait are numpy's, whatever is written, closed or dropped: a short `make fuzz-arrays`.

When this fails, a write changes an expression that somebody made before it, an update is lost, or
threads that share nothing but a device disturb each other: wrong numbers, without an error.
"""

from __future__ import annotations

import model_programs
import pytest
from memory_model import Mismatch

import sparkle_drv as sp

pytestmark = pytest.mark.unmeasured


def text(outcome: model_programs.Outcome) -> str:
    return "\n".join(
        f"program {number} of {program.kind}:\n" + "\n".join(failure.log[-40:]) + failure.error
        for number, _, program, failure in outcome.failures
    )


@pytest.mark.parametrize(("count", "switch"), [(1500, None), (500, 1e-6)])
@pytest.mark.parametrize("uri", ["cpu", "egl:0", "emu:gfx1100"])
def test_two_thousand_operations(uri, count, switch):
    """One to four threads, each with a queue; a quarter with threads that switch all the time."""
    try:
        outcome = model_programs.run(uri, count, 43, 4, switch, first=0 if switch is None else 1000)
    except sp.DeviceNotFound as error:
        pytest.skip(str(error))
    assert not outcome.failures, text(outcome)
    assert outcome.operations >= count
    assert len(outcome.steps) > 25


def lost_update(monkeypatch):
    """Every tenth update in place does nothing."""
    usual, calls = sp.Array.__iadd__, []

    def iadd(self, operand):
        calls.append(0)
        return self if len(calls) % 10 == 0 else usual(self, operand)

    monkeypatch.setattr(sp.Array, "__iadd__", iadd)


def late_expression(monkeypatch):
    """The sum of x and 0 is x itself, not the version that x had."""
    usual = sp.Array.__add__

    def add(self, operand):
        return (
            self.reshape(self.shape)
            if type(operand) is int and operand == 0
            else usual(self, operand)
        )

    monkeypatch.setattr(sp.Array, "__add__", add)


def copied_view(monkeypatch):
    """A reshaped array has memory of its own."""
    usual = sp.Array.reshape

    def reshape(self, *shape):
        return usual(self, *shape).astype(self.dtype)

    monkeypatch.setattr(sp.Array, "reshape", reshape)


@pytest.mark.parametrize("plant", [lost_update, late_expression, copied_view])
def test_a_planted_mistake_is_found(plant, monkeypatch):
    plant(monkeypatch)
    outcome = model_programs.run("cpu", 4000, 5, 1, kinds=("arrays",))
    assert outcome.failures
    assert Mismatch.__name__ in outcome.failures[0][3].error


def test_a_failing_program_is_shortened(monkeypatch):
    lost_update(monkeypatch)
    outcome = model_programs.run("cpu", 4000, 5, 1, kinds=("arrays",))
    _, _, program, failure = outcome.failures[0]
    rig = model_programs.Rig("cpu")
    short, _ = model_programs.shortened(rig, program, failure, seconds=20, tries=1)
    rig.close()
    assert len(short.steps) < len(program.steps)
