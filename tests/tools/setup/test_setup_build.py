"""setup.py: objects are remade only when the command, the source or a header they saw has changed.

When this fails, a changed source is not rebuilt, and old code is tested.

Runs the real setup.py and build_ffi.py on a project of a few small C files.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from where import ROOT

pytestmark = pytest.mark.setup

HEADER = (
    "#ifndef A\n#define A\n#include <stdint.h>\nint32_t sp_a(void);\nint32_t sp_b(void);\n#endif\n"
)
FILES = {
    "pyproject.toml": "[project]\nname = 'sparkle_drv'\nversion = '0'\n"
    "[tool.setuptools]\npackages = ['sparkle_drv']\n",
    "native/include/sp_a.h": HEADER,
    "native/include/sp_emu.h": '#include "sp_a.h"\nint32_t sp_e(void);\n',
    "native/a.c": '#include "include/sp_a.h"\nint32_t sp_a(void) { return 1; }\n',
    "native/sub/b.c": '#include "include/sp_a.h"\n#include "b.h"\n'
    "int32_t sp_b(void) { return B; }\n",
    "native/sub/b.h": "#define B 2\n",
    "native/emu/e.c": "#include <stdint.h>\nint32_t sp_e(void) { return 3; }\n",
    "native/emu/preload/p.c": "int sp_e(void);\n"
    '__attribute__((visibility("default"))) int sp_p(void) { return sp_e() + 1; }\n',
    "native/hot/h.c": '#include <Python.h>\n#include "h.h"\n'
    'static PyModuleDef hot = {PyModuleDef_HEAD_INIT, .m_name = "_hot", .m_size = H};\n'
    "PyMODINIT_FUNC PyInit__hot(void) { return PyModule_Create(&hot); }\n",
    "native/hot/h.h": "#define H 0\n",
    "sparkle_drv/__init__.py": "",
}


class Project:
    def __init__(self, root: Path) -> None:
        self.root = root
        for name, text in FILES.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        shutil.copy(ROOT / "setup.py", root)
        shutil.copy(ROOT / "native" / "build_ffi.py", root / "native")

    def run(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        clean = {k: v for k, v in os.environ.items() if k not in ("CC", "CFLAGS", "LDFLAGS")}
        return subprocess.run(
            [sys.executable, *words],
            cwd=self.root,
            env={**clean, **env},
            capture_output=True,
            text=True,
            check=False,
        )

    def build(self, *command: str, **env: str) -> set[str]:
        """What was compiled and linked, by file name."""
        done = self.run("setup.py", "--quiet", *(command or ("build_ext", "--inplace")), **env)
        assert done.returncode == 0, done.stdout + done.stderr
        lines = [line.split() for line in done.stdout.splitlines()]
        return {Path(line[1]).name for line in lines if line[0] in ("cc", "ld")}

    def call(self, function: str, module: str = "_native") -> str:
        code = f"from sparkle_drv.{module} import lib; print(lib.{function}())"
        return self.run("-c", code).stdout.strip()


NATIVE = {"sparkle_drv._native.c", "_native.abi3.so"}
EMU = {"sparkle_drv._emu.c", "_emu.abi3.so"}
HOT = {"h.c", "_hot.abi3.so"}


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path)


def test_only_what_changed_is_compiled(project):
    assert project.build() == NATIVE | EMU | HOT | {"a.c", "b.c", "e.c"}
    assert (project.call("sp_a"), project.call("sp_e", "_emu")) == ("1", "3")
    assert project.build() == set()

    (project.root / "native/sub/b.h").write_text("#define B 5\n")  # seen by one file alone
    assert project.build() == {"b.c", "_native.abi3.so"}
    assert project.call("sp_b") == "5"
    (project.root / "native/hot/h.h").write_text("#define H 8\n")
    assert project.build() == HOT
    assert project.run("-c", "import sparkle_drv._hot").returncode == 0

    header = project.root / "native/include/sp_a.h"
    header.write_text(HEADER.replace("int32_t sp_b", "int32_t sp_c(void);\nint32_t sp_b"))
    (project.root / "native/c.c").write_text(
        '#include "include/sp_a.h"\nint32_t sp_c(void) { return 9; }\n'
    )
    assert project.build() == NATIVE | EMU | {"a.c", "b.c", "c.c"}  # a new file joins by itself
    assert project.call("sp_c") == "9"

    assert {"a.c", "b.c", "c.c", "e.c", "h.c"} < project.build(CFLAGS="-O0")
    assert project.build(CFLAGS="-O0") == set()


def test_the_preload_library_is_made_of_the_same_objects(project):
    assert project.build("build_preload") == {"e.c", "p.c", "libsparkle_amdgpu.so"}
    library = project.root / "build" / "preload" / "libsparkle_amdgpu.so"
    assert ctypes.CDLL(str(library)).sp_p() == 4
    assert project.build("build_preload") == set()
    assert project.build() == NATIVE | EMU | HOT | {"a.c", "b.c"}

    strict = ("--build-temp", "build/strict", "--build-lib", "build/strict/lib")
    made = project.build("build_ext", *strict, "build_preload", *strict, CFLAGS="-O0 -Werror")
    assert {"p.c", "libsparkle_amdgpu.so"} < made
    source = project.root / "native/emu/preload/p.c"
    source.write_text(source.read_text() + "static int unused;\n")
    done = project.run("setup.py", "build_preload", *strict, CFLAGS="-O0 -Werror")
    assert done.returncode != 0
    assert "unused" in done.stderr
    assert ctypes.CDLL(str(library)).sp_p() == 4


def test_an_error_names_the_file_and_leaves_nothing_half_made(project):
    project.build()
    source = project.root / "native/a.c"
    right = source.read_text()
    source.write_text("int32_t sp_a(void) { return 1 }\n")
    done = project.run("setup.py", "--quiet", "build_ext", "--inplace")
    assert done.returncode != 0
    assert "native/a.c" in done.stderr
    assert project.call("sp_a") == "1"  # the old one is still there
    source.write_text(right)
    assert project.build() == {"a.c", "_native.abi3.so"}


def test_a_missing_compiler_is_named(project):
    done = project.run("setup.py", "--quiet", "build_ext", CC="no-such-cc")
    assert done.returncode != 0
    assert "cannot run no-such-cc" in done.stderr
