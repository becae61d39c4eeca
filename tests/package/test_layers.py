"""Imports and includes point down only, without a circle: the picture of the layers, enforced.

When this fails, an import points up, and the layers that contributors rely on are gone.

tools/_loc reads the sources; an import counts in a function and under TYPE_CHECKING too. Texts are
planted as data, so that what must be found is tested.
"""

from __future__ import annotations

import loc
import pytest
from _loc import layers, rooms
from where import ROOT

# What the planted texts import.
THERE = dict.fromkeys(
    (
        *("sparkle_drv/__init__.py", "sparkle_drv/types.py", "sparkle_drv/errors.py"),
        *("sparkle_drv/lowlevel.py", "sparkle_drv/ops/__init__.py", "sparkle_drv/ops/gemm/call.py"),
        *("sparkle_drv/core/buffer.py", "sparkle_drv/backends/base.py"),
        *("sparkle_drv/backends/egl/device.py", "sparkle_drv/testing/__init__.py"),
        *("sparkle_drv/plugin/__init__.py", "sparkle_drv/amd/tables/pm4.py"),
        *("native/include/sp_base.h", "native/core/base.h", "native/egl/device/device.h"),
        *("native/hot/launch/launch.h", "native/hot/module.c", "native/emu/version.c"),
    ),
    "",
)


@pytest.fixture(scope="module")
def checkout() -> dict[str, rooms.Room]:
    return rooms.read(ROOT)


def found(path: str, text: str) -> list[str]:
    return layers.violations(rooms.rooms({**THERE, path: text}, {}))


def test_every_room_is_in_order(checkout):
    assert not loc.complaints(checkout), "\n" + "\n".join(loc.complaints(checkout))


def test_the_rooms_are_all_there(checkout):
    tops = {name.partition("/")[0] for name in checkout}
    assert tops >= {"sparkle_drv", "native", "tools", "tests", "benchmarks"}
    assert sum(len(room.files) for room in checkout.values()) > 1000
    assert "native/include" in checkout["sparkle_drv/core"].out  # by way of _native


@pytest.mark.parametrize("arguments", [("--rooms", "nonsense"), ("--root", "no/such/folder")])
def test_what_is_no_folder_is_refused(arguments, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["loc.py", *arguments])
    with pytest.raises(SystemExit) as ended:
        loc.main()
    assert ended.value.code == 2
    assert f"got {arguments[1]}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("sparkle_drv/core/queue.py", "from sparkle_drv.ops import gemm"),
        ("sparkle_drv/core/queue.py", "from ..ops.gemm.call import plan"),
        ("sparkle_drv/core/queue.py", "import sparkle_drv"),
        ("sparkle_drv/core/queue.py", "from sparkle_drv import Device"),
        ("sparkle_drv/core/queue.py", "def f():\n    from .. import testing"),
        ("sparkle_drv/core/queue.py", "from sparkle_drv.plugin import Queues"),
        ("sparkle_drv/ops/gemm/call.py", "from sparkle_drv.lowlevel import pm4"),
        ("sparkle_drv/plugin/queues.py", "from sparkle_drv.testing import suite"),
        ("sparkle_drv/backends/cpu/device.py", "from sparkle_drv.core import buffer"),
        ("sparkle_drv/backends/cpu/device.py", "from sparkle_drv.backends.egl import device"),
        ("sparkle_drv/amd/tables/pm4.py", "from sparkle_drv.backends import base"),
        ("sparkle_drv/types.py", "from sparkle_drv.errors import check"),
        ("sparkle_drv/errors.py", "if TYPE_CHECKING:\n    from sparkle_drv.core import buffer"),
        ("sparkle_drv/_hot.pyi", "from sparkle_drv.core.buffer import Buffer"),
        ("sparkle_drv/strange.py", "from sparkle_drv import types"),
        ("tools/bench.py", "from sparkle_drv.core.buffer import Buffer"),
        ("native/core/queue.c", '#include "egl/device/device.h"'),
        ("native/core/queue.c", '#  include "../hot/launch/launch.h"'),
        ("native/cpu/runtime/queue.c", '#include "egl/device/device.h"'),
        ("native/include/sp_cmd.h", '#include "core/base.h"'),
        ("native/strange/new.c", '#include "sp_base.h"'),
    ],
)
def test_a_planted_import_is_found(path, text):
    assert len(found(path, text)) == 1


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("sparkle_drv/core/queue.py", "from ..backends import base\nfrom .buffer import Buffer"),
        (
            "sparkle_drv/core/queue.py",
            "from sparkle_drv import _native, _hot",
        ),
        ("sparkle_drv/core/queue.py", "from sparkle_drv import errors"),
        ("sparkle_drv/backends/cpu/device.py", "from ..base import Backend\nfrom . import queue"),
        ("sparkle_drv/testing/suite.py", "from sparkle_drv.core import queue\nfrom .. import _emu"),
        ("sparkle_drv/plugin/queues.py", "from sparkle_drv.core import buffer"),
        ("tools/bench.py", "import sparkle_drv as sp\nfrom sparkle_drv import testing, lowlevel"),
        ("sparkle_drv/types.py", "import os\nfrom enum import Enum"),
        ("native/cpu/runtime/queue.c", '#include "core/base.h"\n#include "include/sp_base.h"'),
        ("native/core/base.h", '#include <stdint.h>\n#include "sp_base.h"'),
    ],
)
def test_a_right_import_passes(path, text):
    assert found(path, text) == []


def test_a_circle_is_found_with_its_imports():
    texts = {
        "sparkle_drv/sched/run/local.py": "def f():\n    from ..graph import record",
        "sparkle_drv/sched/graph/record.py": "import os\nfrom sparkle_drv.sched.run import local",
    }
    said = loc.complaints(rooms.rooms(texts, dict.fromkeys(layers.LAYERS, "Said.")))
    assert "a circle: sparkle_drv/sched/graph, sparkle_drv/sched/run" in said
    assert any("sched/graph/record.py:2 -> sparkle_drv/sched/run/local.py" in line for line in said)


def test_c_files_that_include_one_another_are_found():
    texts = {
        "native/egl/queue.h": "",
        "native/egl/queue.c": '#include "queue.h"\n#include "egl/jobs.h"',
        "native/egl/jobs.h": "",
        "native/egl/jobs.c": '#include "jobs.h"\n#include "queue.h"',
    }
    said = loc.complaints(rooms.rooms(texts, {"native/egl": "Said."}))
    assert said == ["C files in a circle: native/egl/jobs, native/egl/queue"]


def test_a_room_that_holds_too_much_is_found():
    many = {f"native/core/file{at}.c": "" for at in range(rooms.MOST + 1)}
    said = loc.complaints(rooms.rooms(many, {"native/core": "Said."}))
    assert said == [f"native/core: {rooms.MOST + 1} sources, at most {rooms.MOST}"]
    generated = {path: "/* Generated by tools/gen.py from x */" for path in many}
    assert loc.complaints(rooms.rooms(generated, {})) == []
