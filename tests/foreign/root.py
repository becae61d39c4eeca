"""A Debian 13 system below build/foreign, in which foreign programs run.

It is made by debootstrap from the mirror that this machine's apt uses. All mounts belong to the
mount namespace of one command.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
ROOT = CHECKOUT / "build/foreign/root"
SUITE = "trixie"
PACKAGES = (
    *("mesa-opencl-icd", "ocl-icd-libopencl1", "mesa-vulkan-drivers", "libvulkan-dev"),
    *("python3-numpy", "clpeak", "hashcat", "piglit", "python3-setuptools", "xz-utils"),
    *("g++", "cmake", "ninja-build", "meson", "pkg-config", "glslc", "spirv-headers"),
    *("libcunit1-dev", "libpciaccess-dev", "dpkg-dev"),
)
APT_FILES = ("/etc/apt/apt.conf.d", "/etc/apt/trusted.gpg.d", "/etc/resolv.conf", "/etc/ssl/certs")
ENTER = """
mount --rbind /dev "$0/dev" && mount --rbind /sys "$0/sys" && mount -t proc proc "$0/proc"
mkdir -p "$0$1" && mount --bind "$1" "$0$1"
for folder in $2; do mkdir -p "$0$folder" && mount --bind "$folder" "$0$folder"; done
checkout=$1; shift 2
exec chroot "$0" /usr/bin/env -i -C "$checkout" HOME=/root LANG=C.UTF-8 \
    PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin DEBIAN_FRONTEND=noninteractive "$@"
"""


class Absent(Exception):
    """The system cannot be made here; the text says why."""


def enter(
    command: Sequence[str], environment: dict[str, str] | None = None, *,
    timeout_s: float = 600, folders: Sequence[Path] = (),
) -> tuple[int, str]:  # fmt: skip
    """Runs a command in the system. Returns its exit code, 124 after `timeout_s`, and what it
    printed. `folders` of this machine are there under the same path."""
    given = [f"{key}={value}" for key, value in (environment or {}).items()]
    shared = " ".join(map(str, folders))
    try:
        done = subprocess.run(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", ENTER, str(ROOT),
             str(CHECKOUT), shared, *given, *command],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace", timeout=timeout_s, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        printed = error.stdout or b""
        return 124, printed.decode(errors="replace") if isinstance(printed, bytes) else printed
    return done.returncode, done.stdout


def make() -> None:
    """Makes the system, if build/foreign has none. Raises Absent."""
    if (ROOT / "etc/made").exists():
        return
    if os.geteuid() != 0:
        raise Absent("debootstrap and chroot need root")
    if shutil.which("debootstrap") is None:
        raise Absent("debootstrap is not installed")
    mirror = _mirror()
    ROOT.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["debootstrap", "--variant=minbase", SUITE, str(ROOT), mirror],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise Absent(f"debootstrap failed: {done.stdout.splitlines()[-1:]}")
    for path in map(Path, APT_FILES):
        target = Path(f"{ROOT}{path}")
        if path.is_dir():
            shutil.copytree(
                path, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*docker*")
            )
        elif path.exists():
            shutil.copy(path, target)
    lines = [f"{kind} {mirror} {SUITE} main" for kind in ("deb", "deb-src")]
    (ROOT / "etc/apt/sources.list").write_text("\n".join(lines) + "\n")
    for command in (
        ("apt-get", "-qq", "update"),
        ("apt-get", "-qq", "-y", "--no-install-recommends", "install", *PACKAGES),
    ):
        status, printed = enter(command, timeout_s=1800)
        if status:
            raise Absent(f"{' '.join(command[:2])}: {printed.splitlines()[-1:]}")
    (ROOT / "etc/made").touch()


def _mirror() -> str:
    asked = ("apt-get", "indextargets", "--format", "$(REPO_URI)", "Component: main")
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    for mirror in done.stdout.split():
        if "security" not in mirror:
            return mirror
    raise Absent("apt knows no mirror")
