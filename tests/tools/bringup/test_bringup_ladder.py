"""The whole ladder on emulated cards: every rung passes, and nothing is left behind.

When this fails, a healthy card fails bring-up.
"""

from __future__ import annotations

import re

import pytest
from _bringup.benches import amdgpu as bench_amdgpu
from _bringup.ladder import families
from bringupkit import CHIPS, bench, climbed
from where import ROOT

from sparkle_drv.lowlevel import targets

# Each chip once, each kernel twice; harvested units and engines among them.
OTHERS = ("gfx1030:kms-3.42:se-3:cu-40", "gfx1033:kms-3.48", "gfx1035:kms-3.54:cu-4",
          "gfx1036:kms-3.61", "gfx1100:kms-3.61:cu-50", "gfx1102:kms-3.54:se-1",
          "gfx1103:kms-3.42", "gfx1150:kms-3.48")  # fmt: skip


@pytest.mark.parametrize("chip", CHIPS)
def test_every_rung_passes_and_nothing_leaks(chip):
    with bench(chip, job_s=10.0) as (machine, made):
        results = climbed(made, hangs=True)
        made.close()
        live = machine.live_counts()
    assert {r.name: (r.status, r.text) for r in results.values() if r.status != "PASS"} == {}
    assert len(results) >= 28
    assert live == dict.fromkeys(live, 0)


@pytest.mark.unmeasured
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
def test_over_the_public_api(uri, opened):
    from _bringup.ladder import runner

    opened(uri)
    family = families.of(uri)
    made = family.bench(uri)
    try:
        results = list(runner.run_rungs(family.rungs, made, timeout_s=60))
    finally:
        made.close()
    assert [(r.name, r.text) for r in results if r.status not in ("PASS", "SKIP")] == []
    assert all(r.text for r in results)


@pytest.mark.parametrize("uri", ["amdgpu:0", "amdgpu", "amd:1", "/dev/dri/renderD129"])
def test_uris_of_real_cards(uri):
    assert families.of(uri).name == "amdgpu"
    assert families.of(uri).bench(uri).card.uri in (uri.replace("amd:", "amdgpu:"), "amdgpu")


def climb_all(card):
    with bench(card, job_s=10.0, job_limit_s=5.0) as (_, made):
        results = climbed(made)
    assert {r.name: (r.status, r.text) for r in results.values() if r.status != "PASS"} == {}
    assert len(results) >= 70


@pytest.mark.unmeasured
@pytest.mark.parametrize("card", OTHERS)
def test_every_rung_passes_on_other_cards(card):
    climb_all(card)


@pytest.mark.long  # the eight above have each chip once and each kernel twice
@pytest.mark.parametrize("kms", [42, 48, 54, 61])
@pytest.mark.parametrize("chip", [text.partition(":")[0] for text in OTHERS])
def test_every_rung_passes_on_every_chip_and_kernel(chip, kms):
    climb_all(f"{chip}:kms-3.{kms}")


@pytest.mark.parametrize(
    ("card", "said"),
    [
        ("gfx1103", "gfx1103 by GC IP 11.0.1, and by family 148, revision 0x1; loads code objects"),
        ("gfx1103:kms-3.42", "gfx1103 by family 148, revision 0x1; loads code objects of gfx1103"),
        ("gfx1035", "gfx1035 by GC IP 10.3.3, and by family 146, revision 0x20;"),
    ],
)
def test_the_rule_by_which_the_name_was_found(card, said):
    with bench(card) as (_, made):
        result = climbed(made, "node", "version", "device", "isa-name")["isa-name"]
    assert result.status == "PASS"
    assert said in result.text


def test_a_name_without_a_number(monkeypatch):
    monkeypatch.setattr(targets, "MACH", {})
    with bench("gfx1103") as (_, made):
        result = climbed(made, "isa-name")["isa-name"]
    assert result.status == "FAIL"
    assert "no number for this chip" in result.causes[0]["text"]
    assert result.next


def test_a_card_of_an_emulated_uri():
    made = families.of("emu:gfx1103:kms-3.42:bar-256M#1").bench("emu:gfx1103:kms-3.42:bar-256M#1")
    assert made.card.uri == "emu:gfx1103:kms-3.42:bar-256M"
    result = climbed(made, "bar")["bar"]
    made.close()
    assert "256 of 512 MiB" in result.text
    with pytest.raises(families.NoSuchDevice, match=r"kms-3\.99: expected kms-3\.42 to"):
        families.of("emu:gfx1103:kms-3.99")


@pytest.mark.parametrize("uri", ["emu:gfx900", "emu:gfx1100#x", "emu:gfx1100:", "", "?"])
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


@pytest.mark.parametrize(("heap", "status"), [("cpu_accessible_vram", "PASS"), ("vram", "FAIL")])
def test_a_heap_with_more_usable_than_total(heap, status, monkeypatch):
    """A 6800 said 273055744 of 268435456 of what the CPU sees (Mesa, amdgpu_devices.c)."""
    with bench("gfx1030:bar-256M") as (_, made):
        memory = made.memory
        one = getattr(memory, heap)
        one.usable_heap_size = one.total_heap_size + 4620288
        monkeypatch.setattr(bench_amdgpu.Bench, "memory", memory)
        assert climbed(made, "memory-info")["memory-info"].status == status
