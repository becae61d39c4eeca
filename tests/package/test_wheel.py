"""The wheel, built from the sdist, where there is only Python and the four dependencies.

When this fails, `pip install` gives a package that does not run.

No compiler on PATH, no /dev/dri, no home that could be written to, and another working directory
than the checkout. The dependencies come from the environment of the tests, by path: nothing is
downloaded. (`make test-fresh` is where they are installed by name.)
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest
from where import ROOT

LARGEST = 2 << 20
# What only tests and benchmarks of a checkout use.
OF_TESTS = (
    "cluster/transport/air.py",
    *("testing/emulated_dispatch.py", "testing/emulated_kernels.py", "testing/fault_suite.py"),
)

GEMM = """
import numpy as np
import sparkle_drv as sp

rng = np.random.default_rng(5)
a = rng.standard_normal((37, 53), dtype=np.float32)
b = rng.standard_normal((53, 29), dtype=np.float32)
with sp.open("cpu") as device:
    c = sp.ops.gemm(device, a, b)
want = a.astype(np.float64) @ b.astype(np.float64)
assert c.shape == want.shape and c.dtype == np.float32
assert np.abs(c - want).max() < 100 * np.finfo(np.float32).eps * np.sqrt((want**2).mean())
print(sp.__file__)
"""

IMAGES = """
import hashlib
from sparkle_drv import assets

seen = set()
for image in assets.manifest()["images"].values():
    for target, blob in image["blobs"].items():
        try:
            found = assets.image(blob["file"])
        except FileNotFoundError:
            assert target == "sm_90a"  # says what sm_80 does
            continue
        assert hashlib.sha256(found).hexdigest() == blob["sha256"]
        seen.add(target)
print(*sorted(seen))
"""

EMULATED = """
import numpy as np
import sparkle_drv as sp
import sparkle_drv.testing

x = np.arange(100, dtype=np.float32)
with sp.open("emu:gfx1036") as device:
    assert np.array_equal(sp.ops.reduce(device, x), x.sum())
"""

DOCUMENTED = """
import inspect
import sparkle_drv as sp

for name in sp.__all__:
    item = getattr(sp, name)
    members = inspect.getmembers(item) if isinstance(item, type) else ()
    for path, value in (("", item), *members):
        if not path.startswith("_") and value.__doc__:
            print(f"{name}.{path} {value.__doc__[:40]!r}")
"""

START = """
import os, sys
name = sys.argv[1]
path = os.path.join(os.path.dirname(sys.executable), name)
os.execv(path, [path, *sys.argv[2:]])
"""

pytestmark = [pytest.mark.setup, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A folder with the sdist and the wheel made from it."""
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


@pytest.fixture(scope="module")
def wheel(built):
    (path,) = built.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """run(*arguments) -> the completed `python *arguments` of a venv with the wheel in it."""
    home = tmp_path_factory.mktemp("wheel")
    venv, work, empty = home / "venv", home / "work", home / "empty"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    work.mkdir()
    empty.mkdir()
    python = venv / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    subprocess.run([*pip, "--no-index", "--no-deps", str(wheel)], check=True)
    # This folder is searched, but its own .pth files (the one of the checkout) are not read.
    (site,) = venv.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [*without_dri(), str(python), *arguments]
        env = {"PATH": str(empty), "HOME": "/dev/null/home", "LANG": "C.UTF-8"}
        return subprocess.run(
            command, cwd=work, env=env, capture_output=True, text=True, timeout=120, check=False
        )

    return run


def without_dri() -> list[str]:
    """A command prefix that hides /dev/dri where there is one; only root may."""
    if not Path("/dev/dri").exists():
        return []
    if os.geteuid() != 0:
        pytest.skip("/dev/dri is here and only root can hide it")
    mount, shell = shutil.which("mount"), shutil.which("sh")
    hide = f'{mount} -t tmpfs none /dev/dri && exec "$@"'
    return [str(shutil.which("unshare")), "--mount", str(shell), "-c", hide, "sh"]


def test_one_small_abi3_wheel(wheel):
    assert re.fullmatch(r"sparkle_drv-[\d.]+-cp310-abi3-linux_\w+\.whl", wheel.name)
    assert wheel.stat().st_size <= LARGEST


def test_the_wheel_has_what_the_package_needs_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = archive.read(next(n for n in names if n.endswith("/METADATA"))).decode()
    inside = {n.removeprefix("sparkle_drv/") for n in names if n.startswith("sparkle_drv/")}
    assert {
        "_native.abi3.so",
        "_emu.abi3.so",
        "_hot.abi3.so",
        "py.typed",
        "shaders/manifest.json",
    } <= inside
    assert {"tools/_reexec.py", "tools/bench.py"} <= inside
    python = {str(p.relative_to(ROOT / "sparkle_drv")) for p in ROOT.glob("sparkle_drv/**/*.py")}
    of_tests = {name for name in python if name.startswith(OF_TESTS)}
    assert of_tests == set(OF_TESTS)
    here = {n for n in inside if n.endswith(".py") and not n.startswith("tools/")}
    assert python - of_tests == here
    others = {n for n in names if not n.startswith("sparkle_drv/")}
    assert all(n.split("/")[0].endswith(".dist-info") for n in others)
    assert any(n.endswith("/licenses/LICENSE") for n in others)
    of_a_checkout = (".c", ".h", ".pyc", ".sh", "setup_env.py", "_packages.py", "_egl_check.py")
    archives = ("bringup_archive.py", "gpu_kit.py", "wheels.py", "wheel_archive.py")
    assert not [n for n in inside if n.endswith((*of_a_checkout, *archives))]
    assert not [n for n in inside if n.startswith("tools/") and re.search(r"/_?(gen|isa_c)\b", n)]
    required = re.findall(r"^Requires-Dist: (\w+)[^;\n]*$", metadata, re.M)
    assert sorted(required) == ["cffi", "msgpack", "numpy", "pyelftools"]


def test_the_sdist_is_the_checkout(built):
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    here = ["setup.py", "pyproject.toml", "Makefile", ".ci/run", "README.md", "LICENSE"]
    for folder in ("native", "shaders", "tools", "tests", "sparkle_drv", "docs", "examples"):
        found = (path for path in (ROOT / folder).rglob("*") if path.is_file())
        here += [str(path.relative_to(ROOT)) for path in found if "__pycache__" not in path.parts]
    assert {name for name in here if not name.endswith(".so")} - names == set()


def test_a_gemm(installed):
    done = installed("-c", GEMM)
    assert done.returncode == 0, done.stderr
    assert "/venv/" in done.stdout  # not the checkout's


def test_all_images_are_there_as_they_were_built(installed):
    done = installed("-c", IMAGES)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["gfx10-3-generic", "gfx11-generic", "sm_80"]


def test_an_emulated_gpu_runs_one(installed):
    done = installed("-c", EMULATED)
    assert done.returncode == 0, done.stderr


def test_what_is_public_has_the_docstrings_of_the_checkout(installed):
    here = subprocess.run([sys.executable, "-c", DOCUMENTED], capture_output=True, text=True)
    there = installed("-c", DOCUMENTED)
    assert there.returncode == 0, there.stderr
    assert "Array.numpy" in there.stdout
    assert there.stdout.splitlines() == here.stdout.splitlines()


@pytest.mark.parametrize("script", ["sparkle", "sparkle-bench", "sparkle-bringup", "sparkle-pm4"])
def test_console_scripts(installed, script):
    import sparkle_drv as sp

    def run(*words):
        return installed("-c", START, script, *words)

    done = run("--version")
    assert (done.returncode, done.stdout) == (0, f"{script} {sp.__version__}\n"), done.stderr
    done = run("--help")
    assert done.returncode == 0, done.stderr
    assert f"usage: {script} " in done.stdout
    done = run("nonsense")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr


def test_info(installed):
    done = installed("-m", "sparkle_drv", "info")
    assert done.returncode == 0, done.stderr
    assert "cpu" in done.stdout
    done = installed("-m", "sparkle_drv", "info", "--json")
    assert done.returncode == 0, done.stderr
    assert "cpu" in json.dumps(json.loads(done.stdout))


def test_rdna_as(installed, tmp_path):
    (tmp_path / "a.s").write_text("s_endpgm\n")
    done = installed("-m", "sparkle_drv", "rdna_as", "assemble", "--hex", str(tmp_path / "a.s"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["bfb00000"]


def test_bench(installed, tmp_path):
    done = installed("-m", "sparkle_drv", "bench", "--help")
    assert done.returncode == 0, done.stderr
    assert "run" in done.stdout
    out = tmp_path / "saxpy.json"
    command = ["bench", "run", "saxpy_f32", "-a", "n=4096", "--quick", "--json", str(out)]
    done = installed("-m", "sparkle_drv", *command)
    assert done.returncode == 0, done.stdout + done.stderr
    (row,) = json.loads(out.read_text())["results"]
    assert (row["kernel"], row["device"], row["verified"]) == ("saxpy_f32", "cpu", True)
    assert row["time_ns"]["median"] > 0
