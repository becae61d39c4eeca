"""The whole ladder on emulated cards: every rung passes, and nothing is left behind."""

from __future__ import annotations

import re

import pytest
from _bringup.benches import amdgpu as bench_amdgpu
from _bringup.ladder import families
from bringupkit import CHIPS, bench, climbed
from where import ROOT


@pytest.mark.parametrize("chip", CHIPS)
def test_every_rung_passes_and_nothing_leaks(chip):
    with bench(chip, job_s=10.0) as (machine, made):
        results = climbed(made, hangs=True)
        made.close()
        live = machine.live_counts()
    assert {r.name: (r.status, r.text) for r in results.values() if r.status != "PASS"} == {}
    assert len(results) >= 28
    assert live == dict.fromkeys(live, 0)


@pytest.mark.parametrize("chip", CHIPS)
def test_rungs_stand_alone(chip):
    """In the reverse order too: a rung relies on no other's objects."""
    with bench(chip, job_s=10.0) as (_, made):
        for name in reversed([r.name for r in families.AMDGPU if not r.hangs]):
            result = climbed(made, name)[name]
            assert result.status == "PASS", (name, result.text)


@pytest.mark.parametrize("family", families.FAMILIES, ids=lambda f: f.name)
def test_a_ladder_is_in_order(family):
    names = [rung.name for rung in family.rungs]
    assert len(set(names)) == len(names)
    for i, rung in enumerate(family.rungs):
        assert set(rung.needs) <= set(names[:i]), rung.name
        assert rung.text


@pytest.mark.parametrize("uri", ["cpu", "egl:0"])
def test_over_the_public_api(uri):
    from _bringup.ladder import climb

    family = families.of(uri)
    made = family.bench(uri)
    try:
        results = list(climb.climb(family.rungs, made, timeout_s=60))
    finally:
        made.close()
    if results[0].facts.get("raised") == "DeviceNotFound":
        pytest.skip(results[0].text)
    assert [(r.name, r.text) for r in results if r.status not in ("PASS", "SKIP")] == []
    assert all(r.text for r in results)


@pytest.mark.parametrize("uri", ["amdgpu:0", "amdgpu", "amd:1", "/dev/dri/renderD129"])
def test_uris_of_real_cards(uri):
    assert families.of(uri).name == "amdgpu"
    assert families.of(uri).bench(uri).card.uri in (uri.replace("amd:", "amdgpu:"), "amdgpu")


@pytest.mark.parametrize("uri", ["emu:gfx900", "emu:gfx1100#x", "", "?"])
def test_names_of_nothing(uri):
    with pytest.raises(families.NoSuchDevice):
        families.of(uri)


DOC = (ROOT / "docs" / "bringup.md").read_text()


def test_the_document_has_every_rung_and_no_other():
    cells = [line.split("|")[1] for line in DOC.splitlines() if line.startswith("| `")]
    told = {name for cell in cells for name in re.findall(r"`([a-z][a-z0-9-]*)`", cell)}
    names = {rung.name for family in families.FAMILIES for rung in family.rungs}
    names = {name for name in names if not name.startswith("api-")}
    assert names <= told
    others = {"name", "status", "text", "ioctl", "errno", "causes", "next", "facts"}
    assert told - names - others <= {"api-open", "api-closing"}


def test_the_document_explains_every_source():
    keys = {key for line in DOC.splitlines() for key in re.findall(r"^\| ([\d., ]+|D) \|", line)}
    known = {part.strip() for key in keys for part in key.split(",")}
    for cause in (*bench_amdgpu.CAUSES,):
        kind, _, rest = cause.source.partition(" ")
        if kind in ("D", "errno(3)"):
            continue
        assert kind == "F", cause.id
        told = re.sub(r"\(.*?\)|rung \d", "", rest)
        assert {part.strip() for part in told.split(",")} <= known, cause.id


def test_a_kernel_that_tells_no_ip_versions():
    with bench("gfx1036", kms_minor=42) as (machine, made):
        machine.plant("family", 143, 0x3C)
        results = climbed(made, "node", "version", "device", "ring-compute", "ring-dma", "store")
    assert {r.status for r in results.values()} == {"PASS"}, results
    assert "gfx1032" in results["device"].text
    assert "IP block 10.0" in results["ring-compute"].text
    assert "IP block 5.2" in results["ring-dma"].text
