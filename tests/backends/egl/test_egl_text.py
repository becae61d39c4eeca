"""What the egl backend does without a driver: shader text, logs, the program cache, ranking.

When this fails, shaders that are cached on disk come back for the wrong driver.
"""

from __future__ import annotations

import os

import pytest

from sparkle_drv.backends.egl.cache import ProgramCache
from sparkle_drv.backends.egl.nodes import SURFACELESS, EglNode, rank
from sparkle_drv.backends.egl.source import explained, line_of, with_version

SOURCE = "void main()\n{\n    x = 1;\n}\n"


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("0:3(5): error: `x' undeclared", 3),
        ('0(3) : error C1503: undefined variable "x"', 3),
        ("ERROR: 0:3: 'x' : undeclared identifier", 3),
        ("WARNING: 0:12: something", 12),
        ("error: linking failed", None),
        ("", None),
    ],
)
def test_lines_of_every_driver_are_found(message, line):
    assert line_of(message) == line


def test_a_log_shows_the_lines_it_speaks_of():
    told = explained("0:3(5): error: no x\n\n0:99(1): error: beyond\nplain", SOURCE)
    assert told.splitlines() == [
        "0:3(5): error: no x",
        "    3 |     x = 1;",
        "0:99(1): error: beyond",
        "plain",
    ]


@pytest.mark.parametrize("isa", ["glsl 430", "essl 310"])
def test_a_version_line_is_put_in_front_and_lines_keep_their_numbers(isa):
    whole = with_version(SOURCE, isa)
    assert whole.startswith("#version 310 es" if isa == "essl 310" else "#version 430 core")
    assert "    3 |     x = 1;" in explained("0:3(5): error: no x", whole)


@pytest.mark.parametrize("head", ["#version 450\n", "// first\n  # version 430 core\n"])
def test_a_version_line_of_ones_own_stays(head):
    assert with_version(head + SOURCE, "glsl 430") == head + SOURCE


def test_the_cache_gives_back_what_it_was_given(tmp_path):
    cache = ProgramCache(str(tmp_path), ("vendor", "renderer"))
    path = cache.path(b"source")
    assert cache.get(path) is None
    cache.put(path, 7, b"program")
    assert cache.get(path) == (7, b"program")
    assert [p.name for p in cache.folder.iterdir()] == [path.name], "something else was left"
    cache.drop(path)
    cache.drop(path)
    assert cache.get(path) is None


def test_names_depend_on_driver_and_parts_and_their_borders(tmp_path):
    def name(driver, *parts):
        return ProgramCache(str(tmp_path), driver).path(*parts)

    names = [
        name(("a",), b"x"),
        name(("b",), b"x"),
        name(("a",), b"y"),
        name(("ax",)),
        name(("a",), b"x", b""),
        name(("a", "x")) / "other",
    ]
    assert len(set(names)) == len(names)


def test_the_cache_does_not_grow_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr("sparkle_drv.backends.egl.cache._MOST_FILES", 10)
    cache = ProgramCache(str(tmp_path), ())
    for i in range(25):
        path = cache.path(bytes([i]))
        cache.put(path, 1, b"p")
        os.utime(path, ns=(i, i))
    assert len(list(cache.folder.iterdir())) <= 10
    assert cache.get(cache.path(bytes([24]))) is not None, "the newest went"


def test_a_cache_over_a_file_does_nothing(tmp_path):
    (tmp_path / "egl").write_text("in the way")
    cache = ProgramCache(str(tmp_path), ())
    cache.put(cache.path(b"x"), 1, b"p")
    assert cache.get(cache.path(b"x")) is None


def test_nvidia_first_software_late_surfaceless_last():
    mesa = EglNode(0, True, "", "EGL_MESA_device_software")
    intel = EglNode(1, False, "/dev/dri/renderD128", "EGL_EXT_device_drm")
    nvidia = EglNode(2, False, "/dev/dri/renderD129", "EGL_NV_device_cuda EGL_EXT_device_drm")
    any_ = EglNode(SURFACELESS, False, "", "")
    assert sorted([any_, mesa, intel, nvidia], key=rank) == [nvidia, intel, mesa, any_]
    assert [str(node) for node in (mesa, intel, any_)] == [
        "EGL device 0 (software)",
        "EGL device 1 (/dev/dri/renderD128)",
        "EGL surfaceless platform",
    ]


def test_lines_count_from_the_last_line_directive():
    """What a tool put above a source, with #line behind it, does not shift what is quoted."""
    text = "#version 430\n#define N 4\n#define M 5\n#line 2\nint two;\nint three;"
    assert explained("0:3(1): error: x", text).endswith("    3 | int three;")
    assert explained("0:2(1): error: x", text).endswith("    2 | int two;")
