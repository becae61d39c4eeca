"""Makes the environment of gpu_run.py's steps. It uses only the standard library.

`make gpu-kit` fills a folder, the kit, with this package and its dependencies. The package comes
from the kit. Its dependencies come from the machine if they work there, otherwise from the kit.
The vendor's OpenGL is put where the loader finds it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
from _kit.wheel_archive import unpack

# {a dependency of sparkle_drv: the module whose import shows that it is installed}
NEEDED = {
    "cffi": "_cffi_backend",
    "pycparser": "pycparser",
    "msgpack": "msgpack",
    "pyelftools": "elftools",
    "numpy": "numpy",
}
TRY_S = 120  # timeout of a trial import; numpy takes long from a cold disk
VENDORS = ("/usr/share/glvnd/egl_vendor.d", "/etc/glvnd/egl_vendor.d")  # libglvnd's default folders
EGL_VENDOR = "libEGL_nvidia.so.0"
# prefixes of the environment variables to report
TOLD = ("SPARKLE_", "CUDA_", "LD_LIBRARY_PATH", "PYTHON", "__EGL")


class Unfit(Exception):
    """Says that the folder that `make gpu-kit` filled (the kit) cannot be used here. The text is
    the reason.
    """


def commit(kit: Path) -> str:
    """Returns the text of the file `commit` in the folder `kit`: the commit from which the kit's
    package was built. Raises Unfit if the file cannot be read.
    """
    try:
        return (kit / "commit").read_text().strip()
    except (OSError, ValueError) as error:
        raise Unfit(f"the kit is damaged: cannot read its file `commit`: {error}") from error


def _unpack(kit: Path, names: Sequence[str], site: Path) -> None:
    try:
        _unpacked(kit, names, site)
    except Unfit:
        raise
    except FileNotFoundError as error:
        raise Unfit(f"the kit is damaged: its folder {kit} lacks a file: {error}") from error
    except OSError as error:  # most likely the disk is full
        raise Unfit(f"the kit {kit} cannot be unpacked in {site}: {error}") from error
    except Exception as error:  # lzma.LZMAError cannot be named in a Python without lzma
        raise Unfit(
            f"the kit is damaged: the files of the folder {kit} cannot be unpacked: "
            f"{type(error).__name__}: {error}"
        ) from error


def _unpacked(kit: Path, names: Sequence[str], site: Path) -> None:
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    for name in names:
        if name == "numpy":
            try:
                unpack(kit / "numpy.tar.xz", python, site)
            except KeyError:
                raise Unfit(f"the kit {kit} has no numpy for Python {python}") from None
            except ImportError as error:  # this Python was built without lzma
                raise Unfit(
                    f"Python {python} has no numpy and cannot unpack one: {error}"
                ) from None
        for wheel in (kit / "wheels" / python).glob(f"{name}-*.whl"):
            zipfile.ZipFile(wheel).extractall(site)


def _missed(env: dict[str, str], work: Path) -> str:
    """Imports the NEEDED packages and sparkle_drv's extensions in a child process with the
    environment `env`. Returns the text of the error, or "" if all imports work.
    """
    code = f"import {', '.join(NEEDED.values())}, sparkle_drv._native, sparkle_drv._hot"
    command = [sys.executable, "-c", code]
    try:
        done = subprocess.run(  # in `work`, because -c imports from the current folder first
            command, env=env, cwd=work, capture_output=True, text=True, timeout=TRY_S
        )
    except subprocess.TimeoutExpired:
        return f"no import within {TRY_S} s"
    if not done.returncode:
        return ""
    # A damaged library may end the process by a signal, and then stderr is empty.
    return (done.stderr.strip() or f"status {done.returncode}").splitlines()[-1]


def environment(kit: Path, work: Path, fake: Path | None) -> dict[str, str]:
    """Returns the environment variables of gpu_run.py's steps. The steps use the machine's packages
    if these work, otherwise those of the folder `kit`, which `make gpu-kit` fills. `fake` is the
    path of a fake driver that replaces NVIDIA's.

    Raises Unfit if the packages of the kit do not work with this Python.
    """
    if "t" in getattr(sys, "abiflags", ""):
        raise Unfit("the package's extensions cannot run in a free-threaded Python")
    site = work / "site"
    site.mkdir()
    env = {key: value for key, value in os.environ.items() if key != "PYTHONHOME"}
    paths = [str(kit / "site"), str(site), env.get("PYTHONPATH", "")]
    env["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    env |= {
        "PYTHONDONTWRITEBYTECODE": "1", "SPARKLE_HOME": str(work / "home"),
        "CUDA_CACHE_PATH": str(work / "cache"),
        "SPARKLE_COMMIT": commit(kit),
    }  # fmt: skip
    if fake:
        env["SPARKLE_LIBCUDA"] = str(fake)
    _unpack(kit, [p for p, m in NEEDED.items() if importlib.util.find_spec(m) is None], site)
    if _missed(env, work):  # the machine's packages are too old, or broken
        _unpack(kit, list(NEEDED), site)
    if why := _missed(env, work):
        raise Unfit(f"the kit {kit} does not work with Python {platform.python_version()}: {why}")
    return env | _opengl(kit, work, env, bool(fake))


def _opengl(kit: Path, work: Path, env: dict[str, str], fake: bool) -> dict[str, str]:
    """Returns environment variables that make OpenGL work. They name the OpenGL loader in the
    folder `kit` if the machine has none. They also name a JSON file that leads libglvnd to the
    vendor's library, because containers may lack that file.
    """
    more: dict[str, str] = {}
    folders = [env.get("LD_LIBRARY_PATH", "")]
    if not _found("libEGL.so.1", env):
        folders.insert(0, str(kit / "gl" / "usr" / "lib" / f"{platform.machine()}-linux-gnu"))
    if not fake and not any(list(Path(folder).glob("*nvidia*")) for folder in VENDORS):
        vendor = _found(EGL_VENDOR, env)
        if not vendor and (driver := _found("libcuda.so.1", env)):
            beside = Path(driver).parent / EGL_VENDOR
            # NVIDIA's EGL library, and the libraries that it needs, lie beside libcuda.so.1, in a
            # folder that the dynamic loader does not search.
            if beside.is_file():
                vendor = str(beside)
                folders.insert(0, str(beside.parent))
        if vendor:
            icd = {"file_format_version": "1.0.0", "ICD": {"library_path": vendor}}
            (work / "10_nvidia.json").write_text(json.dumps(icd))
            more["__EGL_VENDOR_LIBRARY_FILENAMES"] = str(work / "10_nvidia.json")
    more["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, folders))
    return more


_PATH = """
import ctypes, sys
ctypes.CDLL(sys.argv[1])
for line in open("/proc/self/maps"):
    path = line.rstrip("\\n").split(None, 5)[5:]
    if path and path[0].rpartition("/")[2].startswith(sys.argv[1].partition(".so")[0] + ".so"):
        print(path[0])
        break
"""


def _found(library: str, env: dict[str, str]) -> str:
    """Returns the path of the file that the dynamic loader finds for the name `library`. Returns ""
    if the loader finds none.
    """
    done = subprocess.run(
        [sys.executable, "-c", _PATH, library], env=env, capture_output=True, text=True,
        timeout=TRY_S,
    )  # fmt: skip
    return done.stdout.strip() if done.returncode == 0 else ""


def describe(logs: Path, env: dict[str, str], fake: bool) -> None:
    """Writes files with facts about the machine into the folder `logs`."""
    told = {
        "python": sys.version, "executable": sys.executable, "platform": platform.platform(),
        "cores": os.cpu_count(), "fake": fake,
        "environment": {k: v for k, v in env.items() if k.startswith(TOLD)},
    }  # fmt: skip
    (logs / "machine.json").write_text(json.dumps(told, indent=1) + "\n")
    if fake:
        return
    try:
        done = subprocess.run(["nvidia-smi", "-q"], capture_output=True, timeout=60)
        (logs / "nvidia-smi.txt").write_bytes(done.stdout + done.stderr)
    except (OSError, subprocess.TimeoutExpired) as error:
        (logs / "nvidia-smi.txt").write_text(f"{error}\n")
