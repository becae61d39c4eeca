"""bringup.pyz: what it says where it cannot run, and what it unpacks. A slow test runs the whole of
it in a root that holds only a Python.

When this fails, bringup.pyz does not run on a machine that has only Python.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import debian
import pytest

pytestmark = pytest.mark.setup

TAG = "cp{}{}".format(*sys.version_info)
MAIN = "import sys, os\nprint('ran', sys.argv[1:], os.environ['PYTHONPATH'].split(':')[0])\n"


@pytest.fixture
def made(tmp_path, monkeypatch):
    """made(**parts) -> an archive whose own package only says how it was run."""
    import bringup_archive

    def make(main=MAIN, pythons=None):
        wheel = tmp_path / "sparkle_drv-0-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as packed:
            packed.writestr("sparkle_drv/__init__.py", "")
            packed.writestr("sparkle_drv/__main__.py", main)
            packed.writestr("sparkle_drv/_native.abi3.so", b"\0GLIBC_2.17\0GLIBC_2.4\0")
        library = tmp_path / "libsparkle_amdgpu.so"
        library.write_bytes(b"not one")
        versions = pythons or ["{}.{}".format(*sys.version_info)]
        bringup_archive.write(
            tmp_path / "bringup.pyz", wheel, {one: [] for one in versions}, library
        )
        return tmp_path / "bringup.pyz"

    return make


@pytest.fixture
def main(monkeypatch):
    from _kit import archive_main

    return archive_main


def run(archive, *words, home=None, python=sys.executable, **settings):
    """The archive run by a Python that knows of nothing: no site, no environment."""
    env = {"HOME": str(home or archive.parent), **settings}
    return subprocess.run(
        (python, "-I", "-S", str(archive), *words),
        env=env,
        cwd=archive.parent,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_it_runs_the_tool_from_the_cache_and_unpacks_once(made):
    archive = made()
    done = run(archive, "ladder", "-d", "emu:gfx1100")
    (place,) = (archive.parent / ".cache" / "sparkle_drv").iterdir()
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"ran ['bringup', 'ladder', '-d', 'emu:gfx1100'] {place}\n"
    assert place.name.endswith(TAG)
    (place / "sparkle_drv" / "__main__.py").write_text("print('the same')")
    assert run(archive, "mem", "-d", "cpu").stdout == "the same\n"
    assert run(archive, "pm4", "reg", "x", XDG_CACHE_HOME="/proc").stdout.startswith(
        "ran ['pm4', 'reg', 'x'] /tmp"
    )


@pytest.mark.parametrize("shared", [False, True])
def test_a_cache_that_is_not_ours_alone_is_not_used(made, tmp_path, shared):
    archive, home = made(), tmp_path / "home"
    (home / ".cache" / "sparkle_drv").mkdir(parents=True)
    (home / ".cache" / "sparkle_drv").chmod(0o777 if shared else 0o700)
    place = run(archive, "ladder", "-d", "cpu", home=home).stdout.split()[-1]
    assert place.startswith(str(home)) != shared
    assert Path(place).exists() != shared  # a temporary folder is gone again


def test_exit_codes_pass_through(made):
    assert run(made("import sys; sys.exit(3)"), "ladder", "-d", "cpu").returncode == 3


def test_a_library_that_is_missing_is_named(made):
    archive = made("raise ImportError('libstdc++.so.6: cannot open shared object file: No such')")
    done = run(archive, "ladder", "-d", "cpu")
    assert (done.returncode, done.stderr) == (
        1,
        "bringup.pyz: this machine has no libstdc++.so.6, which a part of the archive needs\n",
    )


def test_a_cache_that_lost_a_part_is_named(made):
    done = run(made("import sparkle_drv.gone"), "ladder", "-d", "cpu")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "sparkle_drv.gone" in done.stderr
    assert "remove that folder" in done.stderr


def test_a_folder_that_may_not_be_read_is_no_missing_card(main, tmp_path, monkeypatch):
    def listdir(folder):
        raise PermissionError(13, "no", folder)

    monkeypatch.setattr(main.os, "listdir", listdir)
    [line] = main.nodes(str(tmp_path))
    assert line.startswith(f"no permission for {tmp_path}")


def test_a_python_that_the_archive_lacks_is_named(made):
    done = run(made(pythons=["3.9"]), "ladder")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"bringup.pyz: {sys.executable} is CPython {sys.version_info[0]}.{sys.version_info[1]}, "
        "not in the archive: the archive has CPython 3.9\n"
    )


MANIFEST = {"pythons": {"cp310": [], "cp311": []}, "glibc": [2, 34], "digest": "0"}


@pytest.mark.parametrize(
    ("what", "value", "said"),
    [
        ("version_info", (3, 6, 1), "is CPython 3.6, too old: the archive has CPython 3.10, 3.11"),
        ("version_info", (3, 15, 0), "is CPython 3.15, not in the archive"),
        ("platform", "darwin", "expected Linux, got darwin"),
        ("abiflags", "t", "without a GIL"),
    ],
)
def test_what_is_wrong_with_a_python(main, monkeypatch, what, value, said):
    monkeypatch.setattr(main.sys, "version_info", (3, 11, 2))
    monkeypatch.setattr(main.sys, what, value)
    (line,) = main.missing(MANIFEST)
    assert said in line


@pytest.mark.parametrize(
    ("libc", "said"),
    [
        (None, "expected glibc 2.34, got another C library (musl?)"),
        ((2, 31), "got glibc 2.31, expected 2.34"),
    ],
)
def test_what_is_wrong_with_a_system(main, monkeypatch, libc, said):
    monkeypatch.setattr(main.sys, "version_info", (3, 11, 2))
    monkeypatch.setattr(main, "glibc", lambda: libc)
    monkeypatch.setattr(main.platform, "machine", lambda: "aarch64")
    first, second = main.missing(MANIFEST)
    assert first == "expected 64-bit x86, got aarch64"
    assert said in second


@pytest.mark.parametrize("text", ["", "musl 1.2"])
def test_the_c_library_is_asked(main, monkeypatch, text):
    name, _ = platform.libc_ver()
    assert (main.glibc() is None) == (name != "glibc")
    monkeypatch.setattr(main.os, "confstr", lambda _: text)
    assert main.glibc() is None


def test_why_no_card_can_be_opened(main, tmp_path, monkeypatch):
    (line,) = main.nodes(str(tmp_path / "none"))
    assert line.startswith(f"no render node in {tmp_path}/none: ")
    node = tmp_path / "renderD128"
    node.touch()
    node.chmod(0o640)
    assert main.nodes(str(tmp_path)) == []
    monkeypatch.setattr(main.os, "access", lambda *_: False)
    (line,) = main.nodes(str(tmp_path))
    group = line.partition("belongs to group ")[2].split()[0]
    said = f"no permission for {node}: it belongs to group {group} (mode 640); "
    assert line.startswith(said)
    # Nobody is sent into root's group.
    wanted = f"'usermod -aG {group} USER', then log in again"
    assert line.removeprefix(said) == wanted or not node.stat().st_gid
    assert ("usermod" in line) == (node.stat().st_gid != 0)


def test_record_puts_the_library_before_a_program(made):
    done = run(made(), "record", "/usr/bin/env", PATH="/usr/bin")
    said = dict(line.split("=", 1) for line in done.stdout.splitlines())
    assert said["SPARKLE_EMU"] == "record"
    assert said["LD_PRELOAD"].endswith("/libsparkle_amdgpu.so")
    assert run(made(), "record").returncode == 2
    assert "no-such: No such file" in run(made(), "record", "no-such", PATH="/").stderr


def test_the_same_parts_make_the_same_bytes(made):
    first = made().read_bytes()
    assert made().read_bytes() == first
    with zipfile.ZipFile(made()) as archive:
        manifest = json.loads(archive.read("manifest.json"))
    assert manifest["glibc"] == [2, 28]
    assert manifest["pythons"] == {TAG: ["sparkle_drv-0-py3-none-any.whl"]}


# The root's system: what its Python is made of and nothing more; numpy wants libstdc++6.
BARE = ("libc6", "zlib1g", "libexpat1", "libgcc-s1", "libstdc++6")
USE = """
import sparkle_drv as sp, sparkle_drv.testing
with sp.open("emu:gfx1100") as dev, dev.kernel("fill_f32") as k, dev.buffer(400) as y:
    with dev.queue() as q:
        q.launch(k, y, 2.0, 100, groups=(7, 1, 1)).wait()
    print(y.read("f4", 100).sum())
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_whole_archive_in_a_bare_root(tmp_path):
    import bringup_archive

    tools = ("unshare", "mount", "chroot", "sh")
    if os.geteuid() or not all(map(shutil.which, tools)):
        pytest.skip(f"root is needed, and {', '.join(tools)}")
    may = subprocess.run(("unshare", "--mount", "true"), capture_output=True, text=True)
    if may.returncode:  # in a chroot whose root is no mount, or without the right to it
        pytest.skip(may.stderr.strip())
    python = Path(os.path.realpath("/usr/bin/python3")).name
    version = python.removeprefix("python")
    if version not in bringup_archive.PYTHONS:
        pytest.skip(f"the system's Python is {version}")
    parts = (f"{python}-minimal", f"lib{python}-minimal", f"lib{python}-stdlib", *BARE)
    try:
        debian.unpack(tmp_path / "made", parts)
        bringup_archive.fetched(version)
    except (debian.Absent, bringup_archive.Absent) as absent:
        pytest.skip(f"packages or wheels cannot be fetched: {absent}")
    assert bringup_archive.main(["--python", version, "--out", str(tmp_path / "b.pyz")]) == 0
    root = tmp_path / "made" / "root"
    shutil.copy(tmp_path / "b.pyz", root)

    (root / "proc").mkdir()
    enter = 'mount -t proc proc "$0/proc" && exec env -i $S "$(command -v chroot)" "$0" "$@"'

    def bare(*words, **settings):
        inside = ("sh", "-c", enter, str(root), f"/usr/bin/{python}", *words)
        command = ("unshare", "--mount", *inside)
        settings = {**os.environ, "S": " ".join(f"{k}={v}" for k, v in settings.items())}
        return subprocess.run(
            command, env=settings, capture_output=True, text=True, timeout=100, check=False
        )

    checked = bare("/b.pyz", "check")
    assert (checked.returncode, checked.stdout) == (1, "")
    assert checked.stderr.startswith("bringup.pyz: no render node in /dev/dri")
    shown = bare("/b.pyz", "pm4", "reg", "rsrc2", "--gfx", "11", HOME="/root")
    assert (shown.returncode, shown.stdout.split()[0]) == (0, "COMPUTE_PGM_RSRC2")
    (place,) = (root / "root" / ".cache" / "sparkle_drv").iterdir()
    used = bare("-c", USE, PYTHONPATH="/" + str(place.relative_to(root)))
    assert (used.stdout, used.stderr) == ("200.0\n", "")
