"""Every route and every port of real devices is measured, kept and found again.

When this fails, plans between devices rest on rates that nobody measured.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv.mesh import mesh as mesh_file
from sparkle_drv.mesh.lanes.array_runner import Ways
from sparkle_drv.mesh.mesh import Mesh
from sparkle_drv.mesh.survey import survey
from sparkle_drv.mesh.survey_result import load, store
from sparkle_drv.sched.model.profile import Profile

URIS = ("cpu", "egl:0", "cuda:0")


@pytest.fixture(scope="module")
def devices(opened):
    return {uri: opened(uri) for uri in URIS}


@pytest.fixture(scope="module")
def found(devices):
    with Ways(devices) as ways:
        return survey(ways)


def test_all_is_measured(found):
    assert set(found.ways) == {(a, b) for a in URIS for b in URIS if a != b}
    for of in (found.adds, found.sends, found.receives, found.boths):
        assert set(of) == set(URIS)
    for points in found.ways.values():
        assert len({size for size, _ in points}) >= 2
        assert all(seconds > 0 for _, seconds in points)


def test_two_devices_have_no_second_way_to_share_a_port_with(opened):
    with Ways({uri: opened(uri) for uri in URIS[:2]}) as ways:
        found = survey(ways)
    assert (found.sends, found.receives, set(found.boths)) == ({}, {}, set(URIS[:2]))
    with Ways({"cpu": opened("cpu")}) as ways:
        alone = survey(ways)
    assert (alone.ways, set(alone.adds)) == ({}, {"cpu"})


def test_what_is_kept_is_found_again(found, devices, tmp_path):
    infos = {uri: device.info for uri, device in devices.items()}
    kept = Profile(str(tmp_path))
    assert load(kept, infos) is None
    store(kept, infos, found)
    again = load(Profile(str(tmp_path)), infos)
    assert {way: len(points) for way, points in again.ways.items()} == {
        way: len(points) for way, points in found.ways.items()
    }
    assert again.adds == {p: [tuple(map(float, x)) for x in y] for p, y in found.adds.items()}
    # Another set of devices shares the ways, but no port.
    assert load(kept, {uri: infos[uri] for uri in URIS[:2]}) is None
    other = {**infos, "cpu": replace(infos["cpu"], driver="another")}
    assert load(kept, other) is None


def test_a_second_mesh_measures_nothing(devices, tmp_path, monkeypatch):
    kept = Profile(str(tmp_path))
    two = [devices["cpu"], devices["egl:0"]]
    with Mesh(two, kept=kept) as one:
        first = one.topology.links

    def never(*_, **__):
        raise AssertionError("measured again")

    monkeypatch.setattr(mesh_file, "survey", never)
    with Mesh(two, kept=kept) as again:
        assert again.topology.links.keys() == first.keys()
        for way, link in again.topology.links.items():
            assert link.latency_us == pytest.approx(first[way].latency_us)
        assert list(again.topology.links) == list(first)


def test_transfers_correct_the_topology(devices):
    two = [devices["cpu"], devices["egl:0"]]
    with Mesh(two) as one:
        arrays = [device.array(np.ones(100_000, np.float32)) for device in two]
        before = {way: link.bw_gbs for way, link in one.topology.links.items()}
        for _ in range(3):
            one.all_reduce(arrays, "max")
        after = {way: link.bw_gbs for way, link in one.topology.links.items()}
    assert any(after[way] != before[way] for way in before)


def test_a_context_keeps_its_meshes(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARKLE_HOME", str(tmp_path))
    with sp.init(["cpu", "egl:0"]) as ctx, ctx.create_mesh() as one:
        said = str(one.topology)
    assert "cpu to egl:0: " in said
    assert "link:from cpu" in (tmp_path / "profile.json").read_text()


def test_a_second_mesh_of_a_context_measures_nothing(monkeypatch):
    """Without a profile, too."""
    surveys = []
    monkeypatch.setattr(
        mesh_file, "survey", lambda *given, **named: surveys.append(1) or survey(*given, **named)
    )
    with sp.init(["cpu", "egl:0"], profile=False) as ctx:
        for names in (["cpu", "egl:0"], ["egl:0", "cpu"]):
            with ctx.create_mesh(names) as mesh:
                assert len(mesh.topology.links) == 2
    assert surveys == [1]
