"""benchmarks/egl_shaders.py at small sizes: it verifies both shaders before it times any.

When this fails, the shader benchmark times a wrong shader.
"""

import json

import egl_shaders
import pytest


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(egl_shaders, "GEMM", 36)
    monkeypatch.setattr(egl_shaders, "CHANNELS", 5)
    monkeypatch.setattr(egl_shaders, "IMAGE", 11)


def test_both_races_are_run_and_written(tmp_path, capsys):
    out = tmp_path / "r.json"
    assert egl_shaders.main(["--samples", "3", "--json", str(out)]) in (0, 1)  # as fast or not
    document = json.loads(out.read_text())
    assert [row["name"].split()[0] for row in document["results"]] == ["gemm_f32", "conv2d_f32"]
    for row in document["results"]:
        assert row["low"] <= row["ratio"] <= row["high"]
        assert row["ratio"] == pytest.approx(row["naive_s"] / row["ours_s"])
        assert set(row["errors"]) == {"ours", "naive"}
        assert row["plan"]["source"] == "model"
    assert "times as fast" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["NAIVE_GEMM", "NAIVE_CONV2D"])
def test_a_wrong_shader_has_no_ratio(name, monkeypatch, tmp_path, capsys):
    text = getattr(egl_shaders, name).replace("float sum = 0.0", "float sum = 0.01")
    monkeypatch.setattr(egl_shaders, name, text)
    out = tmp_path / "r.json"
    assert egl_shaders.main(["--samples", "1", "--json", str(out)]) == 1
    assert "naive" in capsys.readouterr().err
    assert not out.exists()


def test_no_such_device(capsys):
    assert egl_shaders.main(["-d", "egl:99"]) == 3
    assert "egl:99" in capsys.readouterr().err
