"""shaders/ and tools/ are found by path: in the package, else beside it.

When this fails, an installed package does not find its kernels or tools.
"""

import json
import lzma
import sys

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


@pytest.fixture
def packed(tmp_path, monkeypatch):
    """An image as a wheel has it."""
    (tmp_path / "shaders" / "rdna").mkdir(parents=True)
    monkeypatch.setattr(assets, "_PACKAGE", tmp_path)
    path = tmp_path / "shaders" / "rdna" / "a.gfx9.hsaco.xz"
    path.write_bytes(lzma.compress(b"AB\n"))
    return path


def test_an_image_of_a_wheel_is_unpacked(packed):
    assert assets.image("rdna/a.gfx9.hsaco") == b"AB\n"


def test_a_file_comes_before_a_packed_one(packed):
    packed.with_suffix("").write_bytes(b"newer")
    assert assets.image("rdna/a.gfx9.hsaco") == b"newer"


def test_an_image_that_is_nowhere(packed):
    with pytest.raises(FileNotFoundError, match="the installation is incomplete") as caught:
        assets.image("rdna/c.gfx9.hsaco")
    assert str(caught.value.filename).endswith("rdna/c.gfx9.hsaco")


@pytest.mark.parametrize("damage", [lambda data: data[:-20], lambda data: b"x" + data])
def test_a_packed_image_that_is_damaged(packed, damage):
    packed.write_bytes(damage(packed.read_bytes()))
    with pytest.raises(OSError, match=r"cannot be unpacked: .*gfx9\.hsaco\.xz"):
        assets.image("rdna/a.gfx9.hsaco")


def test_a_python_without_lzma(packed, monkeypatch):
    monkeypatch.setitem(sys.modules, "lzma", None)
    with pytest.raises(OSError, match=r"built without lzma, which unpacks it: .*hsaco\.xz"):
        assets.image("rdna/a.gfx9.hsaco")
