"""Scratch memory by shader engine: a group's waves find their slots in one engine, or are refused.

When this fails, a kernel with private memory hangs the GPU or overwrites other waves' data.

A kernel of the test code objects is loaded with more private memory and larger groups than it was
compiled for. Its groups are rows of 64, since each work-item reads its array at its x. On a card
whose engines had fewer slots the emulated launcher would say that the group never starts.
"""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import pytest
from emulated_cards import own_card
from where import CODE_OBJECTS

import sparkle_drv as sp
from sparkle_drv.backends.amdgpu import loader

MIB = 1 << 20
UNIT = {10: 1024, 11: 256}
CHIPS = ["gfx1036", "gfx1100", "gfx1030", "gfx1103"]


@pytest.fixture
def stack(monkeypatch):
    """(device, bytes of each wave) -> the kernel `stack`, for groups of up to 1024."""
    load = loader.codeobject.load

    def more(blob, entry, *, wave_nbytes, gfx, **given):
        return dataclasses.replace(
            load(blob, entry, **given), max_group_size=1024, required_group_size=None,
            scratch_wave_nbytes=wave_nbytes, scratch_wavesize=wave_nbytes // UNIT[gfx],
        )  # fmt: skip

    def make(dev, wave_nbytes):
        level = 11 if dev.info.isa.startswith("gfx11") else 10
        given = functools.partial(more, wave_nbytes=wave_nbytes, gfx=level)
        monkeypatch.setattr(loader.codeobject, "load", given)
        exact = CODE_OBJECTS / f"features.v5.{dev.info.isa}.hsaco"
        generic = "gfx11-generic" if level == 11 else "gfx10-3-generic"
        path = exact if exact.exists() else CODE_OBJECTS / f"features.v6.{generic}.hsaco"
        return dev.kernel(image=path, entry="stack", args="u32* i32", group_size=64)

    return make


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("wave_nbytes", [MIB // 4, 2 * MIB, 5 * MIB])
def test_the_largest_group_has_its_slots_in_one_engine(chip, wave_nbytes, stack):
    """32 waves of 2 MiB on each of six engines are 384 MiB: more than 256, which cut them to 21."""
    with (
        own_card(chip) as (machine, dev),
        stack(dev, wave_nbytes) as k,
        dev.empty(64 * 2 + 1024, np.uint32) as out,
    ):
        dev.default_queue.launch(k, out, 7, groups=3, group_size=(64, 16, 1)).wait()
        lanes = np.arange(64)
        assert (np.asarray(out)[:64] == 7 * lanes + 49).all()
        assert machine.fault() is None


def test_a_group_that_fits_into_no_engine_is_refused_before_it_is_submitted(stack):
    """7 MiB a wave: 32 waves on each of six engines are more than 1 GiB, 24 are not."""
    with (
        own_card("gfx1100") as (_, dev),
        stack(dev, 7 * MIB) as k,
        dev.empty(64 * 2 + 1024, np.uint32) as out,
    ):
        before = dev._backend.counters()["submissions"]
        with pytest.raises(ValueError, match=r"1024 work-items with 229376 bytes.* 768 work-items"):
            dev.default_queue.launch(k, out, 7, groups=1, group_size=1024)
        with pytest.raises(ValueError, match="fit, or 174762 bytes each"):
            sp.Commands().dispatch(k, out, 7, groups=1, group_size=1024)
        assert dev._backend.counters()["submissions"] == before
        dev.default_queue.launch(k, out, 7, groups=1, group_size=(64, 12, 1)).wait()
        assert (np.asarray(out)[:64] == 7 * np.arange(64) + 49).all()
