"""Foreign programs on the emulated GPU: a line for each program and chip, `N of M right`.

`python tests/foreign/run.py [NAME ...] [--chips gfx1036,gfx1100]`, or `make test-foreign`. The
programs: rusticl, libdrm, tinygrad, clpeak, hashcat, piglit-clover, piglit-rusticl, ggml. README.md
says what each needs.

exit codes: 0 all that ran is as README.md says, 1 a program has fewer right than that
"""

from __future__ import annotations

import argparse
import math
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import root
from root import CHECKOUT, Absent, enter

CHIPS = ("gfx1036", "gfx1100")
PRELOAD = CHECKOUT / "build/preload/libsparkle_amdgpu.so"
WORK = CHECKOUT / "build/foreign"
PIGLIT = "/usr/lib/x86_64-linux-gnu/piglit"
PIGLIT_TEST_S = 120.0
VENDORS = "/etc/OpenCL/vendors"
# Of what LLVM gives Clover: VGPRs are freed while stores to scratch are under way (gfx11).
CLOVER_MODE = {"gfx1036": "strict", "gfx1100": "dealloc"}
# Tests that fail by their own fault or Clover's (README.md).
CLOVER_FAULTS = (
    *("calls", "calls-struct", "calls-large-struct", "realign-stack", "clz-optimizations"),
    "amdgcn-f32-inline-immediates",
)
LIBDRM_SUITES = ("Basic Tests", "BO Tests", "VM Tests", "SYNCOBJ TIMELINE Tests")
# 30 operations, and MUL_MAT, GET_ROWS and CPY, which go through all quantised types.
GGML_OPERATIONS = (
    *("GET_ROWS", "CPY", "MUL_MAT", "MUL_MAT_ID", "DUP", "CONT", "ADD", "SUB", "MUL", "DIV"),
    *("SCALE", "SQR", "SQRT", "SIN", "COS", "CLAMP", "SUM_ROWS", "SOFT_MAX", "RMS_NORM", "NORM"),
    *("ROPE", "IM2COL", "ARGSORT", "CONCAT", "UPSCALE", "ACC", "REPEAT", "PAD", "GROUP_NORM"),
    *("L2_NORM", "LEAKY_RELU", "ARGMAX", "COUNT_EQUAL"),
)


class Count(NamedTuple):
    right: int
    total: int
    wanted: int
    """As many as must be right."""
    note: str = ""


def emulated(chip: str, mode: str = "strict", **more: str) -> dict[str, str]:
    own = {"SPARKLE_EMU": chip, "SPARKLE_EMU_MODE": mode, "LD_PRELOAD": str(PRELOAD)}
    return own | {"MESA_SHADER_CACHE_DISABLE": "1", "SPARKLE_EMU_JOB_LIMIT_S": "300"} | more


def rusticl_environment(chip: str, driver: str = "radeonsi") -> dict[str, str]:
    more = {"RUSTICL_ENABLE": driver, "RUSTICL_FEATURES": "fp64,fp16"}
    more["OCL_ICD_VENDORS"] = f"{VENDORS}/rusticl.icd"
    return emulated(chip, **more) if driver == "radeonsi" else more


def clover_environment(chip: str) -> dict[str, str]:
    return emulated(chip, CLOVER_MODE[chip], OCL_ICD_VENDORS=f"{VENDORS}/mesa.icd")


def rusticl(chip: str) -> Count:
    _, printed = enter(("python3", "tests/clover/run.py"), rusticl_environment(chip))
    lines = [line for line in printed.splitlines() if re.match(r"\w+: ", line)]
    wrong = [line for line in lines if not line.endswith(": right")]
    return Count(len(lines) - len(wrong), len(lines), max(len(lines), 15), "; ".join(wrong[:2]))


def libdrm(chip: str) -> Count:
    folder = WORK / "libdrm"
    if not (folder / "build/tests/amdgpu/amdgpu_test").exists():
        folder.mkdir(parents=True, exist_ok=True)
        # The emulated card has a render node only, and the option for it is read after the opening.
        built = f"""cd {folder} && apt-get -qq source --download-only libdrm && rm -rf source &&
            dpkg-source -x libdrm_*.dsc source &&
            sed -i 's/^int open_render_node.*/int open_render_node = 1;/' \\
                source/tests/amdgpu/amdgpu_test.c &&
            meson setup build source -Dtests=true -Damdgpu=enabled &&
            ninja -C build tests/amdgpu/amdgpu_test"""
        status, printed = enter(("sh", "-c", built))
        if status:
            raise Absent(f"libdrm's tests do not build: {printed.splitlines()[-1:]}")
    libraries = {"LD_LIBRARY_PATH": f"{folder}/build/amdgpu:{folder}/build"}
    # The suites behind these unplug cards or hang them on purpose.
    command = (str(folder / "build/tests/amdgpu/amdgpu_test"), "-r")
    _, printed = enter(command, emulated(chip) | libraries, timeout_s=60)
    passed = failed = 0
    for suite in re.split(r"^Suite: ", printed, flags=re.M)[1:]:
        if suite.startswith(LIBDRM_SUITES):
            passed += len(re.findall(r"passed$", suite, re.M))
            failed += len(re.findall(r"FAILED$", suite, re.M))
    return Count(passed, passed + failed, 17)


def ends(*command: str) -> Callable[[str], Count]:
    def run(chip: str) -> Count:
        status, printed = enter(command, clover_environment(chip), timeout_s=3600)
        fault = re.search("a job faulted: .*", printed)
        note = fault[0] if fault else printed.strip().splitlines()[-1:][0] if status else ""
        return Count(int(status == 0 and not fault), 1, 1, note)

    return run


def tinygrad(chip: str) -> Count:
    if chip != "gfx1100":
        raise Absent("the tests are for gfx11")
    program = Path(__file__).with_name("tinygrad_values.py")
    done = subprocess.run(
        [sys.executable, str(program)], env=os.environ | {"PYTHONPATH": str(CHECKOUT)},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    *wrong, last = (done.stdout or done.stderr).splitlines()
    counted = re.fullmatch(r"(\d+) of (\d+) right", last)
    if counted is None:
        raise Absent(last)
    right, total = map(int, counted.groups())
    return Count(right, total, total - 2, "; ".join(wrong)[:300])


def piglit_results(environment: dict[str, str]) -> dict[str, str]:
    """Returns each test's result: pass, skip, slow for a time-out, or fail."""
    results = {}
    tests = sorted((root.ROOT / PIGLIT[1:] / "tests/cl/program").rglob("*.cl"))
    tests += sorted((root.ROOT / PIGLIT[1:] / "generated_tests/cl").rglob("*.cl"))
    for test in tests:
        inside = "/" + str(test.relative_to(root.ROOT))
        name = inside.removeprefix(f"{PIGLIT}/").removesuffix(".cl")
        command = ("env", "-C", PIGLIT, "bin/cl-program-tester", inside)
        status, printed = enter(command, environment, timeout_s=PIGLIT_TEST_S)
        said = re.findall(r'PIGLIT: \{"result": "(\w+)"', printed)
        result = said[0] if said in (["pass"], ["skip"]) else "fail"
        results[name] = "slow" if status == 124 else result
    return results


def piglit_clover(chip: str) -> Count:
    results = piglit_results(clover_environment(chip))
    counts = Counter(results.values())
    total = counts["pass"] + counts["fail"]
    excused = sum(results.get(f"tests/cl/program/execute/{x}") == "fail" for x in CLOVER_FAULTS)
    return Count(counts["pass"], total, total - excused, _piglit_note(results))


def piglit_rusticl(chip: str) -> Count:
    """Of the tests that pass on llvmpipe and do not time out, those that pass here."""
    here = piglit_results(rusticl_environment(chip))
    there = piglit_results(rusticl_environment(chip, "llvmpipe"))
    judged = {name: here[name] for name in here if there[name] == "pass" and here[name] != "slow"}
    right = Counter(judged.values())["pass"]
    return Count(right, len(judged), math.ceil(0.95 * len(judged)), _piglit_note(here, judged))


def _piglit_note(results: dict[str, str], judged: dict[str, str] | None = None) -> str:
    slow = [name for name, result in results.items() if result == "slow"]
    wrong = [name for name, result in (judged or results).items() if result == "fail"]
    return f"{len(slow)} too slow: {' '.join(slow)}; not right: {' '.join(wrong)}"


def ggml(chip: str) -> Count:
    checkout = Path(os.environ.get("GGML") or "missing")
    if not (checkout / "tests/test-backend-ops.cpp").exists():
        raise Absent("GGML names no checkout of ggml")
    build = WORK / "ggml"
    program = build / "bin/test-backend-ops"
    if not program.exists():
        options = ("-DGGML_VULKAN=ON", "-DGGML_BUILD_TESTS=ON", "-DGGML_NATIVE=OFF")
        for command in (
            ("cmake", "-S", str(checkout), "-B", str(build), "-G", "Ninja",
             "-DCMAKE_BUILD_TYPE=Release", *options),
            ("ninja", "-C", str(build), "test-backend-ops"),
        ):  # fmt: skip
            status, printed = enter(command, timeout_s=7200, folders=[checkout])
            if status:
                raise Absent(f"ggml does not build: {printed.splitlines()[-1:]}")
    icd = "/usr/share/vulkan/icd.d/radeon_icd.json"
    environment = emulated(chip, VK_DRIVER_FILES=icd, VK_LOADER_LAYERS_DISABLE="all")
    right = total = 0
    notes = []
    for operation in GGML_OPERATIONS:
        command = (str(program), "test", "-b", "Vulkan0", "-o", operation)
        _, printed = enter(command, environment, timeout_s=3600, folders=[checkout])
        passed = re.search(r"(\d+)/(\d+) tests passed", printed)
        right += int(passed[1]) if passed else 0
        total += int(passed[2]) if passed else 1
        if not passed or passed[1] != passed[2]:
            fault = re.search("a job faulted: .*", printed)
            notes.append(f"{operation}: {fault[0][:120] if fault else 'did not end'}")
    return Count(right, total, total, "; ".join(notes))


PROGRAMS: dict[str, Callable[[str], Count]] = {
    "rusticl": rusticl,
    "libdrm": libdrm,
    "tinygrad": tinygrad,
    "clpeak": ends("clpeak", "--global-bandwidth", "--compute-sp"),
    "hashcat": ends("hashcat", "--benchmark", "-m", "0", "--force", "--self-test-disable"),
    "ggml": ggml,
    "piglit-clover": piglit_clover,
    "piglit-rusticl": piglit_rusticl,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PROGRAMS))
    parser.add_argument("--chips", default=",".join(CHIPS), help="with commas between them")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in PROGRAMS]
    if unknown:
        parser.error(f"expected {', '.join(PROGRAMS)}, got {unknown[0]}")
    failed = 0
    try:
        root.make()
    except Absent as absent:
        print(f"test-foreign: no system here: {absent}")
        return 0
    for name in options.names or PROGRAMS:
        for chip in options.chips.split(","):
            try:
                count = PROGRAMS[name](chip)
            except Absent as absent:
                print(f"{name:15} {chip} skipped: {absent}", flush=True)
                continue
            failed += count.right < count.wanted
            print(f"{name:15} {chip} {count.right} of {count.total} right {count.note}", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
