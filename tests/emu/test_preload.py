"""The preload library around a program that knows of no GPU: what it shows, what it refuses."""

from __future__ import annotations

import os
import subprocess

import preload
import pytest

SEE = ("ls", "/dev/dri")


def see(temporary, **settings):
    """`ls /dev/dri` behind the library, with nothing of the caller's SPARKLE_EMU settings."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("SPARKLE_EMU")}
    before = os.environ.get("LD_PRELOAD", "").split()  # a sanitizer's library must come first
    ours = {
        "LD_PRELOAD": " ".join([*before, str(preload.library())]),
        "TMPDIR": str(temporary),
        "LC_ALL": "C",
    }
    return subprocess.run(
        SEE, env=kept | ours | settings, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("mode", ["", "strict", "lenient"])
def test_a_card_for_each_name(tmp_path, mode):
    done = see(tmp_path, SPARKLE_EMU="gfx1100,gfx1036", SPARKLE_EMU_MODE=mode)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["renderD128", "renderD129"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("unset", [{}, {"SPARKLE_EMU": ""}])
def test_without_a_name_everything_passes_through(tmp_path, unset):
    done = see(tmp_path, **unset, SPARKLE_EMU_MODE="strickt")
    bare = subprocess.run(SEE, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (bare.returncode, bare.stdout)
    assert "sparkle" not in done.stderr


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"SPARKLE_EMU": "gfx1110"}, "SPARKLE_EMU=gfx1110: "),
        ({"SPARKLE_EMU": "gfx1100,"}, "SPARKLE_EMU=gfx1100,: "),
        ({"SPARKLE_EMU_MODE": "strickt"}, "SPARKLE_EMU_MODE=strickt: strict or lenient is wanted"),
        ({"SPARKLE_EMU_TRACE": "/proc/no/such"}, "SPARKLE_EMU_TRACE=/proc/no/such: "),
        ({"TMPDIR": "/proc/no/such"}, "SPARKLE_EMU=gfx1100: No such file"),
    ],
)
def test_what_cannot_be_served_ends_the_program(tmp_path, settings, said):
    """Else it would go on to a real card, or be judged in another mode than asked for."""
    done = see(tmp_path, **{"SPARKLE_EMU": "gfx1100"} | settings)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"sparkle: {said}")
    assert list(tmp_path.iterdir()) == []


def test_a_stale_library_is_not_judged(tmp_path, monkeypatch):
    old = tmp_path / "libsparkle_amdgpu.so"
    monkeypatch.setattr(preload, "ROOT", tmp_path)
    monkeypatch.setattr(preload, "LIBRARY", old)
    with pytest.raises(pytest.skip.Exception, match="is missing: make preload"):
        preload.library()
    source = tmp_path / "native" / "emu" / "kmd" / "a.c"
    source.parent.mkdir(parents=True)
    source.touch()
    old.touch()
    os.utime(old, ns=(1, 1))
    with pytest.raises(pytest.skip.Exception, match=r"older than native/emu/kmd/a\.c: make"):
        preload.library()
    os.utime(source, ns=(0, 0))
    assert preload.library() == old
