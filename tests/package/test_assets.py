"""shaders/ and tools/ are found by path: in the package, else beside it."""

import json

import pytest

from sparkle_drv import assets


def test_a_checkout_has_both_folders():
    assert (assets.folder("shaders") / "manifest.json").is_file()
    assert (assets.folder("tools") / "bench.py").is_file()


def test_the_package_comes_first(tmp_path, monkeypatch):
    package = tmp_path / "sparkle_drv"
    (package / "shaders").mkdir(parents=True)
    (tmp_path / "shaders").mkdir()
    (tmp_path / "tools").mkdir()
    monkeypatch.setattr(assets, "_PACKAGE", package)
    assert assets.folder("shaders") == package / "shaders"
    assert assets.folder("tools") == tmp_path / "tools"
    with pytest.raises(FileNotFoundError, match=r"nonsense/ is neither in .*incomplete"):
        assets.folder("nonsense")


def test_the_manifest_is_what_the_file_says_and_read_once():
    manifest = assets.manifest()
    text = (assets.folder("shaders") / "manifest.json").read_text()
    assert manifest == json.loads(text)
    assert assets.manifest() is manifest
