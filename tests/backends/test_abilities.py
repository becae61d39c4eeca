"""Optional abilities of a backend: each is a Protocol that is found by its members.

When this fails, a plug-in that lacks an optional ability is called for it anyway.
"""

import ast
import re
from pathlib import Path
from typing import Protocol

import pytest

import sparkle_drv
from sparkle_drv.backends import abilities
from sparkle_drv.backends.abilities import Abilities, ability

PACKAGE = Path(sparkle_drv.__file__).parent
KINDS = {
    name: kind
    for name, kind in vars(abilities).items()
    if isinstance(kind, type) and Protocol in kind.__bases__
}
MEMBERS = {member for kind in KINDS.values() for member in abilities.members(kind)}


def asked(kind):
    """The attribute of Abilities for it."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", kind).lower()


def by_name(tree):
    """(line, text) of every look for an attribute of a backend, or of a member, by its name."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        if node.func.id in ("getattr", "hasattr", "setattr"):
            whose, name = ast.unparse(node.args[0]).lower(), node.args[1]
            if "backend" in whose or (isinstance(name, ast.Constant) and name.value in MEMBERS):
                yield node.lineno, ast.unparse(node)


def test_every_member_is_one_of_one_ability():
    told = [member for kind in KINDS.values() for member in abilities.members(kind)]
    assert sorted(told) == sorted(set(told))
    assert set(told) == {
        "refusal", "fault", "lost", "said", "failure", "alloc_exportable", "dlpack",
        "owns", "adopt", "share_stream", "wait_stream", "order_stream", "takes_threads",
        "clock", "kernels", "hand_over", "room", "peer", "lanes", "_native",
    }  # fmt: skip


def test_core_looks_for_no_member_by_its_name():
    found = []
    for path in sorted((PACKAGE / "core").rglob("*.py")):
        found += [f"{path}:{line}: {text}" for line, text in by_name(ast.parse(path.read_text()))]
    assert found == []


@pytest.mark.parametrize("text", ['getattr(x._backend, "other")', "hasattr(x, 'fault')"])
def test_such_a_look_would_be_found(text):
    assert [line for line, _ in by_name(ast.parse(text))] == [1]


@pytest.mark.parametrize("name", sorted(set(KINDS) - {"TakesThreads"}))
def test_plain_members_are_an_ability(name):
    """Without inheritance; one that is None counts as absent, as one that is not there."""
    members = abilities.members(KINDS[name])
    full = type("Full", (), dict.fromkeys(members, "there"))()
    assert getattr(Abilities(full), asked(name)) is full
    assert getattr(Abilities(object()), asked(name)) is None
    for member in members:
        taken = type("Taken", (type(full),), {member: None})()
        assert getattr(Abilities(taken), asked(name)) is None


def test_members_may_be_delegated():
    class Inner:
        def fault(self, queue, value):
            return "why"

    class Outer:
        def __getattr__(self, name):
            return getattr(Inner(), name)

    made = Outer()
    assert Abilities(made).tells_fault is made
    assert Abilities(made).tells_fault.fault(None, 1) == "why"
    assert Abilities(made).tells_loss is None


@pytest.mark.parametrize(("value", "taken"), [(True, True), (False, False), (1, False)])
def test_a_switch_must_be_true(value, taken):
    class Switched:
        takes_threads = value

    assert abilities.takes_threads(Switched) is taken
    assert abilities.takes_threads(object) is False


def test_a_backend_lists_its_kernels_when_the_first_is_asked_for():
    class Slow:
        listed = 0

        @property
        def kernels(self):
            self.listed += 1
            return {"mine": 1}

    slow = Slow()
    can = Abilities(slow)
    assert slow.listed == 0
    assert can.brings_kernels.kernels == {"mine": 1}
    assert can.brings_kernels is slow
    assert slow.listed == 2  # one look, one use


def test_our_backends_have_what_they_claim():
    from sparkle_drv.backends import cpu, cuda, egl

    assert ability(cpu.BACKEND, abilities.TellsFault) is None
    assert ability(cpu.BACKEND, abilities.MakesRoom) is cpu.BACKEND
    assert ability(egl.BACKEND, abilities.TellsFault) is egl.BACKEND
    assert ability(cuda.BACKEND, abilities.SharesStreams) is cuda.BACKEND


def test_streams_are_asked_for_when_they_are_shared():
    """A driver that cannot say its place on DLPack's list stops no device from being opened."""

    class Late:
        @property
        def dlpack(self):
            raise OSError("asked too early")

    able = Abilities(Late())
    with pytest.raises(OSError, match="asked too early"):
        _ = able.shares_streams
