"""The conformance suite on devices of a node: what passes on the device itself passes there.

When this fails, code that works on a local device fails on a real node.
"""

import pytest

from sparkle_drv.testing import suite

pytestmark = pytest.mark.cluster
ELSEWHERE = {  # what needs the memory of one machine
    "arguments: read only host memory",
    "memory: wrapped host memory is shared both ways",
    "memory: shared memory through a descriptor",
}
# Names, for kernels and the rest take 13 s on each device.
SHORT = {
    "cpu": ("launch", "memory", "fences", "lists"),
    "egl:0": ("memory", "launch"),
    "emu:gfx1100": ("memory",),
}


def statuses(uri, covers=()):
    return {result.name: result for result in suite.run(uri, covers, seed=7)}


def compared(uri, covers=()):
    there = statuses(f"box1/{uri}", covers)
    bad = [result for result in there.values() if result.status == "failed"]
    assert not bad, f"{bad[0]}\n{bad[0].message}"
    wanting = {name for name, result in there.items() if result.status == "not provided"}
    if wanting - ELSEWHERE:
        here = statuses(uri, covers)
        assert not {name for name in wanting - ELSEWHERE if here[name].status == "passed"}
    assert len(there) - len(wanting) > len(there) / 2


@pytest.mark.parametrize("uri", SHORT)
@pytest.mark.usefixtures("lent")
def test_conformance(uri):
    compared(uri, SHORT[uri])


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("uri", SHORT)
@pytest.mark.usefixtures("lent")
def test_conformance_whole(uri):
    compared(uri)
