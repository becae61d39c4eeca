"""Which PTX of a kernel of the manifest a GPU gets (backends/cuda/image.py).

When this fails, an NVIDIA GPU gets code that its driver does not take.
"""

from types import SimpleNamespace

import pytest

from sparkle_drv import assets
from sparkle_drv.backends.cuda import image
from sparkle_drv.errors import ImageError

SPEC = SimpleNamespace(manifest={"image": "cuda/two", "variants": {"sm_80": {}, "sm_90a": {}}})


@pytest.mark.parametrize(
    ("there", "isa", "taken"),
    [
        (("sm_80", "sm_90a"), "sm_90", "sm_90a"),
        (("sm_80", "sm_90a"), "sm_89", "sm_80"),
        (("sm_80", "sm_90a"), "sm_100", "sm_80"),
        (("sm_80",), "sm_90", "sm_80"),  # as in a wheel, where both say the same
    ],
)
def test_the_newest_that_is_there_and_runs(tmp_path, monkeypatch, there, isa, taken):
    (tmp_path / "cuda").mkdir()
    for target in there:
        (tmp_path / f"cuda/two.{target}.ptx").write_text(f".target {target}")
    monkeypatch.setattr(assets, "folder", lambda name: tmp_path)
    assert image._manifest_blob(SPEC, isa) == (
        f".target {taken}".encode(),
        f"two.{taken}.ptx",
    )


def test_a_gpu_that_is_too_old():
    with pytest.raises(ValueError, match="expected code for sm_75, got code for sm_80, sm_90a"):
        image._manifest_blob(SPEC, "sm_75")


def test_a_file_that_is_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(assets, "folder", lambda name: tmp_path)
    with pytest.raises(ImageError, match=r"cuda/two\.sm_80\.ptx: the installation is incomplete"):
        image._manifest_blob(SPEC, "sm_90")
