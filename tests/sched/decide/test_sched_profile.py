"""Which measurements are kept, and that nobody waits long for the file.

When this fails, bad measurements on disk mislead every later run.
"""

import json
import math
import os
import types

import pytest

from sparkle_drv import saved_files
from sparkle_drv.mesh.links.line import MOST_S, fit
from sparkle_drv.sched.model import profile
from sparkle_drv.sched.model.costs import Costs, DeviceCosts
from sparkle_drv.sched.model.speed import Speed

GOOD = [(1e3, 1e-5), (1e6, 1e-3)]


def device(name="x"):
    facts = dict.fromkeys(("backend", "vendor", "driver", "isa", "compute_units"), "")
    return types.SimpleNamespace(uri=name, name=name, slot="", shares=(), **facts)


@pytest.fixture
def home(tmp_path):
    return str(tmp_path)


@pytest.mark.parametrize("value", ["1e308", "1e-308", "-1e-5", "0", "NaN", "Infinity", '"a"', "[]"])
@pytest.mark.parametrize("which", [0, 1], ids=["size", "time"])
def test_what_nobody_can_have_measured_is_set_aside(home, tmp_path, caplog, value, which):
    profile.Profile(home).put(device(), {"gemm_f32": GOOD, "map": GOOD})
    path = tmp_path / "profile.json"
    text = path.read_text().replace(("1000000.0", "0.001")[which], value, 1)
    path.write_text(text)
    if which == 0 and value in ("1e-308", "0"):  # a small size is one
        assert profile.Profile(home).points(device()).keys() == {"gemm_f32", "map"}
        return
    assert profile.Profile(home).points(device()) == {}
    assert "profile.json is damaged and is not used; it is profile.json.damaged now" in caplog.text
    assert path.with_name("profile.json.damaged").read_text() == text
    profile.Profile(home).put(device(), {"gemm_f32": GOOD})
    assert profile.Profile(home).points(device()) == {"gemm_f32": GOOD}


@pytest.mark.parametrize("time", [1e308, 1e-308, 2 * MOST_S, -1.0, 0.0, math.nan, math.inf])
def test_no_time_breaks_the_model(time):
    with pytest.raises(ValueError, match="expected positive times"):
        fit([(1e3, time), (1e6, time)])
    with pytest.raises(ValueError, match="expected positive times"):
        Speed.of([(1e3, time)])
    speed = Speed.of([*GOOD, (1e5, time)])
    speed.observe(1e3, time)
    assert 0 < speed.at(1e9) < math.inf


def test_of_one_size_nothing_is_kept_and_nothing_believed(home, tmp_path):
    one = [(8192.0, 1e-3)] * 3
    kept_file = profile.Profile(home)
    kept_file.put(device(), {"gemm_f32": one})
    assert not (tmp_path / "profile.json").exists()
    kept_file.put(device(), {"gemm_f32": one, "map": GOOD})
    path = tmp_path / "profile.json"
    assert kept_file.points(device()) == {"map": GOOD}
    path.write_text(path.read_text().replace('"map"', '"reduce"'))
    document = json.loads(path.read_text())
    next(iter(document["devices"].values()))["gemm_f32"] = one  # of a version that kept it
    path.write_text(json.dumps(document))
    assert profile.Profile(home).points(device()) == {"reduce": GOOD}
    assert path.exists()


def test_who_holds_the_file_is_waited_for_once(home, tmp_path, monkeypatch, caplog):
    waits, real = [], saved_files.locked

    def locked(path, timeout_s):
        waits.append(timeout_s)
        return real(path, min(timeout_s, 0.02))

    monkeypatch.setattr(saved_files, "locked", locked)
    mine = profile.Profile(home)
    with real(tmp_path / "profile.json"):
        for i in range(3):
            mine.put(device(), {f"map:{i}": GOOD})
            mine.put(device("y"), {f"map:{i}": GOOD})
    assert waits[0] == saved_files.LOCK_TIMEOUT_S
    assert set(waits[1:]) == {0.0}
    assert caplog.text.count("what was measured is not kept: ") == 1
    assert ".profile.lock: expected the lock within" in caplog.text
    assert mine.points(device()) == {}
    mine.put(device(), {"gemm_f32": GOOD})  # nothing that was measured meanwhile is forgotten
    assert mine.points(device()).keys() == {"gemm_f32", "map:0", "map:1", "map:2"}
    assert mine.points(device("y")).keys() == {"map:0", "map:1", "map:2"}


@pytest.mark.parametrize("which", ["profile.json", ".profile.lock"])
@pytest.mark.parametrize("kind", ["fifo", "directory", "device", "link to a device"])
def test_what_is_no_file_is_neither_waited_for_nor_replaced(home, tmp_path, caplog, which, kind):
    path = tmp_path / which
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    elif kind == "link to a device":
        path.symlink_to("/dev/zero")
    else:
        try:
            os.mknod(path, 0o20666, os.makedev(1, 5))
            os.close(os.open(path, os.O_RDONLY))
        except PermissionError:
            pytest.skip("making device nodes is not allowed here")
    before = os.lstat(path)
    mine = profile.Profile(home)
    assert mine.points(device()) == {}
    mine.put(device(), {"gemm_f32": GOOD})
    assert "what was measured is not kept: " in caplog.text
    assert os.lstat(path).st_ino == before.st_ino
    assert mine.points(device()) == {}


def test_a_way_of_one_size_is_used_as_long_as_the_process_lives():
    costs = Costs({"x": DeviceCosts(0)})
    costs.linked("host", "x", [(4096.0, 1e-3)])
    assert costs.links["host", "x"].at(4096) == pytest.approx(1e-3)
