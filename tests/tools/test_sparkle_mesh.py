"""sparkle.py mesh: a matrix, routes, plans and a picture of real devices.

When this fails, the shown routes and rates between devices are wrong.
"""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def sparkle():
    import sparkle as tool

    return lambda *words: tool.main([str(word) for word in words])


def test_a_mesh_is_told_and_drawn(sparkle, capsys, tmp_path):
    picture = tmp_path / "mesh.svg"
    words = ("mesh", "-d", "cpu,egl:0,cpu:c0", "--no-profile", "--svg", picture)
    assert sparkle(*words) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0].split() == ["GB/s", "from", "cpu", "egl:0", "cpu:c0"]
    for said in ("cpu to egl:0: into, ", "egl:0 to cpu: back, ", "cpu:c0 to cpu: shared, ",
                 "cpu, all ways at once: sends ", "\nroutes\n  4 KiB: ", " of 6 are direct",
                 "\nall_reduce of float32\n  4 KiB: ", "\n  64 MiB: "):  # fmt: skip
        assert said in out
    drawn = ElementTree.parse(picture).getroot()
    texts = [t.text or "" for t in drawn.iter(f"{SVG}text") if "aria-hidden" not in t.attrib]
    assert {"cpu", "egl:0", "cpu:c0", "shared memory", "over the host"} <= set(texts)
    assert "peer link" not in texts
    assert sum("GB/s" in text for text in texts) == 6
    side = float(drawn.attrib["viewBox"].split()[2])
    for circle in drawn.iter(f"{SVG}circle"):
        for axis in ("cx", "cy"):
            assert 46 <= float(circle.attrib[axis]) <= side - 46


def test_one_device_has_no_ways(sparkle, capsys):
    assert sparkle("mesh", "-d", "cpu", "--no-profile") == 0
    out = capsys.readouterr().out
    assert "GB/s from" in out
    assert "routes" not in out


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["-d", "quantum:0"], 3, "quantum"),
        (["-d", "cpu,cpu"], 2, "devices: expected each device once"),
        (["-d", "cpu", "--svg", "/no/such/folder/f.svg"], 1, "/no/such/folder/f.svg"),
    ],
)
def test_a_mesh_of_what_cannot_be(sparkle, capsys, words, code, said):
    assert sparkle("mesh", *words, "--no-profile") == code
    captured = capsys.readouterr()
    assert said in captured.err
    assert "Traceback" not in captured.err


@pytest.mark.parametrize("words", [["-d", ""], ["-d", "cpu,"], ["--svg"], ["cpu"]])
def test_usage(sparkle, capsys, words):
    with pytest.raises(SystemExit) as leave:
        sparkle("mesh", *words)
    assert leave.value.code == 2
    assert "--help)" in capsys.readouterr().err
