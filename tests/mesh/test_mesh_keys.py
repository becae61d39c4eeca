"""Measurements of devices and routes are kept by PCI slot, not by number.

When this fails, measurements of one GPU are used for another after a reboot.
"""

import json
from dataclasses import replace

import fakecuda
import pytest
from where import ROOT

import sparkle_drv as sp
from sparkle_drv.backends import machine
from sparkle_drv.backends.rates import identity, slot_key
from sparkle_drv.mesh.survey_result import SurveyResult, between, load, store
from sparkle_drv.sched.model.profile import Profile
from sparkle_drv.testing import emu

LEFT, RIGHT = "0000:10:00.0", "0000:11:00.0"
CARD = sp.DeviceInfo("cuda:0", "cuda", "a card", "gpu", driver="1", slot=LEFT)


def cards(first, second):
    return {
        uri: replace(CARD, uri=uri, slot=slot)
        for uri, slot in (("cuda:0", first), ("cuda:1", second))
    }


def points(seconds):
    return [(1e3, seconds), (1e6, 2 * seconds)]


def test_equal_cards_find_their_own_in_any_order(tmp_path):
    kept = Profile(str(tmp_path))
    ways = {("cuda:0", "cuda:1"): points(1e-5), ("cuda:1", "cuda:0"): points(2e-5)}
    adds = {"cuda:0": points(3e-5), "cuda:1": points(4e-5)}
    boths = {"cuda:0": points(5e-5), "cuda:1": points(6e-5)}
    infos = cards(LEFT, RIGHT)
    store(kept, infos, SurveyResult(ways, adds, boths=boths))
    kept.put(infos["cuda:0"], {"gemm_f32": points(7e-5)})
    assert load(kept, infos) == SurveyResult(ways, adds, boths=boths)
    swapped = cards(RIGHT, LEFT)
    found = load(kept, swapped)
    assert found.ways == {pair[::-1]: seen for pair, seen in ways.items()}
    assert found.adds == {"cuda:0": points(4e-5), "cuda:1": points(3e-5)}
    assert found.boths == {"cuda:0": points(6e-5), "cuda:1": points(5e-5)}
    assert "gemm_f32" in kept.points(swapped["cuda:1"])
    assert "gemm_f32" not in kept.points(swapped["cuda:0"])


def test_a_card_in_another_slot_is_measured_anew(tmp_path):
    kept = Profile(str(tmp_path))
    infos = cards(LEFT, RIGHT)
    kept.put(infos["cuda:0"], {"gemm_f32": points(1e-5), between(infos["cuda:1"]): points(1e-5)})
    moved = cards("0000:12:00.0", RIGHT)
    assert kept.points(moved["cuda:0"]) == {}
    assert between(cards(LEFT, "0000:12:00.0")["cuda:1"]) not in kept.points(infos["cuda:0"])
    assert identity(moved["cuda:0"]) == identity(infos["cuda:0"])  # plans still hold


def test_an_entry_of_an_older_key_is_not_found(tmp_path, caplog):
    kept = Profile(str(tmp_path))
    kept.put(CARD, {"gemm_f32": points(1e-5)})
    path = tmp_path / "profile.json"
    document = json.loads(path.read_text())
    document["devices"] = {identity(CARD): document["devices"][slot_key(CARD)]}
    path.write_text(json.dumps(document))
    assert Profile(str(tmp_path)).points(CARD) == {}
    assert not caplog.records
    assert path.exists()  # nothing is wrong with the file


def test_without_a_slot_the_uri_tells_devices_apart():
    one, other = (replace(CARD, uri=f"sim:{name}", slot="") for name in "ab")
    assert slot_key(one) != slot_key(other)
    assert slot_key(one).startswith("sim:a|")


FOUND = """
from sparkle_drv.backends.cuda import BACKEND
from sparkle_drv.core import settings
infos = {found.uri: found.info for found in BACKEND.discover(settings.read())}
"""
SLOTS = FOUND + "print([info.slot for info in infos.values()])"
CHILD = """
from sparkle_drv.mesh.survey_result import SurveyResult, load, store
from sparkle_drv.sched.model.profile import Profile
for uri, info in infos.items():
    with sp.open(uri) as device:
        assert device.info.slot == info.slot
kept = Profile(os.environ["SPARKLE_HOME"])
def ways(slow):
    times = {"0000:10:00.0": 1e-5, "0000:11:00.0": slow}
    pairs = [(a, b) for a in infos for b in infos if a != b]
    return {(a, b): [(1e3, times[infos[a].slot]), (1e6, 1e-3)] for a, b in pairs}
if load(kept, infos) is None:
    line = [(1e3, 1e-5), (1e6, 1e-3)]
    each = dict.fromkeys(infos, line)
    store(kept, infos, SurveyResult(ways(2e-5), each, boths=each))
else:
    assert load(kept, infos).ways == ways(2e-5)
print(*(info.slot for info in infos.values()))
"""


@pytest.mark.parametrize("second", ["1,0", "0,1"])
def test_cuda_visible_devices_does_not_mix_them_up(tmp_path, second):
    home = {"SPARKLE_HOME": str(tmp_path)}
    first = fakecuda.run(FOUND + CHILD, **home, CUDA_VISIBLE_DEVICES="0,1")
    assert first.split() == [LEFT, RIGHT]
    again = fakecuda.run(FOUND + CHILD, **home, CUDA_VISIBLE_DEVICES=second)
    assert again.split() == [(LEFT, RIGHT)[int(at)] for at in second.split(",")]


@pytest.mark.parametrize(
    ("visible", "slots"), [("1", [RIGHT]), ("1,7,0", [RIGHT]), ("1,1", [RIGHT])]
)
def test_the_fake_driver_hides_cards_as_a_real_one_does(tmp_path, visible, slots):
    assert fakecuda.run(SLOTS, CUDA_VISIBLE_DEVICES=visible).strip() == str(slots)


def test_a_driver_that_does_not_tell_gives_no_slot():
    said = fakecuda.run(SLOTS, FAKE_CUDA_MISSING="cuDeviceGetPCIBusId")
    assert said.strip() == "['', '']"


def test_emulated_cards_have_slots_of_their_own():
    uris = [f"emu:{chip}#{at}" for chip in emu.CHIPS for at in range(emu.CARDS)]
    slots = set()
    for uri in uris:
        with sp.open(uri) as device:
            slots.add(device.info.slot)
            assert machine.slot(device.info.slot) == device.info.slot
    assert len(slots) == len(uris)
    tree = (ROOT / "native/emu/preload/tree.c").read_text()
    assert f"FIRST_BUS = {emu.FIRST_BUS}" in tree


@pytest.mark.parametrize(
    ("text", "slot"),
    [
        ("0000:C3:00.0", "0000:c3:00.0"),
        ("00000000:01:00.0", "0000:01:00.0"),
        ("10000:e1:1f.7", "10000:e1:1f.7"),
        ("", ""),
        ("0000:01:00.8", ""),
        ("fd500000.gpu", ""),
        ("0000:01:00.0\n", ""),
        ("0000:\u0660\u0661:00.0", ""),
    ],
)
def test_pci_addresses_are_spelled_as_linux_does(text, slot):
    assert machine.slot(text) == slot


def test_the_slot_of_a_node_is_in_sysfs(tmp_path):
    folder = tmp_path / "sys/devices/pci0000:00/0000:00:08.1/0000:C3:00.0"
    (folder / "drm/renderD128").mkdir(parents=True)
    drm = tmp_path / "sys/class/drm"
    drm.mkdir(parents=True)
    (drm / "renderD128").symlink_to(folder / "drm/renderD128")
    (folder / "drm/renderD128/device").symlink_to(folder)
    (tmp_path / "sys/devices/platform/soc/fd500000.gpu").mkdir(parents=True)
    (drm / "renderD129").mkdir()
    (drm / "renderD129/device").symlink_to(tmp_path / "sys/devices/platform/soc/fd500000.gpu")
    assert machine.slot_of("/dev/dri/renderD128", tmp_path) == "0000:c3:00.0"
    for other in ("/dev/dri/renderD129", "/dev/dri/renderD130", ""):
        assert machine.slot_of(other, tmp_path) == ""
