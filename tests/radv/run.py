"""Stock RADV on the emulated GPU: 4 shaders x 2 chips x 2 queues x 2 versions of Mesa, and images.

`python tests/radv/run.py [--only WORD ...]`, or `make test-radv`; `--chips all` (`make
test-radv-chips`) takes all eight chips, and `--chips gfx1103:kms-3.42,...` any cards. RADV is
unmodified and knows nothing of us: build/preload/libsparkle_amdgpu.so, loaded before it, shows it a
card. A line for each run, for storage images on each chip and queue, and for vulkaninfo on each
chip and Mesa; the last line is about the shaders: `N of 32 right, M skipped`. A chip that a Mesa
does not know is skipped, and it says so itself.

exit codes: 0 everything that could run is right, 1 something is wrong
"""

from __future__ import annotations

import argparse
import itertools
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(HERE.parent / "kits")]

import mesa  # noqa: E402

BUILD = ROOT / "build"
PRELOAD = ROOT / os.environ.get("SPARKLE_PRELOAD", "build/preload/libsparkle_amdgpu.so")
SHADERS = ("vecadd", "sgemm", "conv2d", "reduce")
IMAGES = "images"
CHIPS = ("gfx1036", "gfx1100")
ALL_CHIPS = ("gfx1030", "gfx1033", "gfx1035", "gfx1036", "gfx1100", "gfx1102", "gfx1103", "gfx1150")
# What a Mesa says that has no such chip (src/amd/common/ac_gpu_info.c).
UNKNOWN = "amdgpu: unknown (family_id, chip_external_rev)"
QUEUES = ("gfx", "compute")
TIMEOUT_S = 120


def build_program(name: str = "vk_compute") -> Path:
    """A Vulkan program, compiled when a source is newer. Raises mesa.Absent."""
    source, program = HERE / f"{name}.c", BUILD / "radv-test" / name
    newest = max(path.stat().st_mtime for path in (source, *HERE.glob("*.h")))
    if program.exists() and program.stat().st_mtime > newest:
        return program
    if not Path("/usr/include/vulkan/vulkan.h").exists():
        raise mesa.Absent("libvulkan-dev is not installed")
    program.parent.mkdir(parents=True, exist_ok=True)
    compiler = shlex.split(os.environ.get("CC", "gcc"))
    flags = ("-O1", "-Wall", "-Wextra", "-Werror", "-o", str(program), str(source))
    subprocess.run((*compiler, *flags, "-lvulkan", "-lm", "-ldl"), check=True)
    return program


def environment(driver: mesa.Mesa, chip: str) -> dict[str, str]:
    """What the driver sees: nothing of the caller's Vulkan or emulator settings."""
    dropped = ("VK_", "MESA_", "RADV_", "SPARKLE_EMU")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(dropped)}
    libraries = [*os.environ.get("LD_PRELOAD", "").split(), str(PRELOAD)]  # a sanitizer's is first
    return kept | driver.environment | {"LD_PRELOAD": " ".join(libraries), "SPARKLE_EMU": chip}


def run(command: tuple[str, ...], env: dict[str, str]) -> tuple[int, str]:
    """Exit code (of timeout(1) when it never ends) and all that was said."""
    try:
        done = subprocess.run(
            command,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        said = error.stdout or b""
        return 124, said.decode(errors="replace") if isinstance(said, bytes) else said
    return done.returncode, done.stdout


def last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "said nothing"


def drivers() -> list[tuple[str, mesa.Mesa | mesa.Absent]]:
    """Both Mesas, or why one cannot be had."""
    found: list[tuple[str, mesa.Mesa | mesa.Absent]] = []
    for name, get in (
        ("the system's RADV", mesa.system),
        ("a newer RADV", lambda: mesa.backports(BUILD / "radv")),
    ):
        try:
            driver = get()
            found.append((driver.name, driver))
        except mesa.Absent as absent:
            found.append((name, absent))
    return found


def run_shader(program: Path, driver: mesa.Mesa, chip: str, queue: str, shader: str) -> bool | None:
    """Whether it is right; None of a chip that this Mesa does not know."""
    command = (str(program), str(HERE / "shaders"), shader, queue)
    return run_program(command, driver, chip, f"{shader} {queue}")


def run_images(driver: mesa.Mesa, chip: str, queue: str) -> bool | None:
    """As run_shader, of storage images and texel buffers."""
    program = build_program("vk_image")
    command = (str(program), str(HERE / "shaders"), queue)
    return run_program(command, driver, chip, f"{IMAGES} {queue}")


def run_program(command: tuple[str, ...], driver: mesa.Mesa, chip: str, what: str) -> bool | None:
    code, said = run(command, environment(driver, chip))
    if UNKNOWN in said:
        print(f"{driver.name:12} {chip} {what} skipped: this Mesa does not know the chip")
        return None
    right = code == 0 and last_line(said).startswith("right ")
    print(f"{driver.name:12} {chip} {'' if right else f'exit {code}: '}{last_line(said)}")
    if not right:
        print(said)
    return right


def run_vulkaninfo(driver: mesa.Mesa, chip: str) -> bool:
    if shutil.which("vulkaninfo") is None:
        print(f"{driver.name:12} {chip} skipped: vulkaninfo: vulkan-tools is not installed")
        return True
    code, said = run(("vulkaninfo", "--summary"), environment(driver, chip))
    if UNKNOWN in said:
        return True
    full, _ = run(("vulkaninfo",), environment(driver, chip))
    print(f"{driver.name:12} {chip} vulkaninfo exits {full}, with --summary {code}")
    if code or full:
        print(said)
    return code == 0 and full == 0


def main(argv: list[str]) -> int:
    about, _, rest = (__doc__ or "").partition("\n")
    top = argparse.ArgumentParser(
        description=about,
        epilog=rest.partition("exit codes")[2] and "exit codes: 0 all right, 1 something wrong",
    )
    top.add_argument(
        "--only", nargs="*", default=[], metavar="WORD", help="runs that these words name"
    )
    top.add_argument(
        "--chips", default=",".join(CHIPS), metavar="CARD,...", help="`all`, or texts of cards"
    )
    top.add_argument(
        "--half", action="store_true", help="each Mesa takes one queue of a chip, in turn"
    )
    args = top.parse_args(argv)
    only = set(args.only)
    chips = ALL_CHIPS if args.chips == "all" else tuple(args.chips.split(","))
    known = (*SHADERS, IMAGES, *chips, *QUEUES)
    if unknown := only - set(known):
        top.error(f"{', '.join(sorted(unknown))}: known are {', '.join(known)}")
    return judge([set(SHADERS), set(chips), set(QUEUES)], only, args.half)


def judge(kinds: list[set[str]], only: set[str], half: bool) -> int:
    """Runs what `only` leaves of each kind and prints the verdict."""
    shaders, chips, queues = (sorted(kind & only or kind) for kind in kinds)
    images = IMAGES in only or not only & kinds[0]
    if IMAGES in only and not only & kinds[0]:
        shaders = []
    pairs = list(itertools.product(enumerate(chips), enumerate(queues)))
    places = [  # of each Mesa
        [(chip, queue) for (i, chip), (k, queue) in pairs if not half or (i + k + turn) % 2 == 0]
        for turn in range(2)
    ]
    right = wrong = skipped = 0
    try:
        program: Path | mesa.Absent = build_program()
    except mesa.Absent as absent:
        program = absent
    for (name, driver), at in zip(drivers(), places, strict=True):
        runs = [(*place, shader) for place in at for shader in shaders]
        reason = next((x for x in (driver, program) if isinstance(x, mesa.Absent)), None)
        if (
            reason is not None
            or isinstance(driver, mesa.Absent)
            or isinstance(program, mesa.Absent)
        ):
            print(f"{name}: skipped {len(runs)}: {reason}")
            skipped += len(runs)
            continue
        results = [run_shader(program, driver, c, q, s) for c, q, s in runs]
        right += results.count(True)
        wrong += results.count(False)
        skipped += results.count(None)
        if images:
            stored = [run_images(driver, *place) for place in at]
            wrong += stored.count(False)
        wrong += sum(not run_vulkaninfo(driver, chip) for chip in chips)
    total = len(shaders) * sum(map(len, places))
    print(f"{right} of {total} right, {skipped} skipped")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
