"""Drivers found at run time: small fake libraries, compiled here, in place of libcuda and libEGL.

When this fails, a machine without a driver gets a crash, or does not learn where the driver was
sought.

Each probe runs in a process of its own, since a process keeps the first library that served.
"""

from __future__ import annotations

import errno
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from where import ROOT

PROBE = """
import json, sys
from sparkle_drv._native import ffi, lib

which, *attempts = sys.argv[1:]
out = ffi.new(f"struct sp_dl_{which} *")
for paths in attempts:
    given = ffi.NULL if paths == "default" else paths.encode()
    rc = getattr(lib, f"sp_dl_probe_{which}")(given, out)
answer = {"rc": rc}
for name, field in ffi.typeof(out[0]).fields:
    value = getattr(out, name)
    answer[name] = value if isinstance(value, int) else ffi.string(value).decode()
print(json.dumps(answer))
"""

CUDA = r"""
#include <stdio.h>
int cuInit(unsigned f) { return INIT; }
int cuDriverGetVersion(int *v) { *v = 12040; return 0; }
int cuDeviceGetCount(int *n) { *n = COUNT; return 0; }
int cuDeviceGet(int *d, int i) { *d = 100 + i; return i == 7 ? 101 : 0; }
int cuDeviceGetName(char *s, int n, int d) { snprintf(s, n, "Fake %d", d); return 0; }
#ifndef NO_ATTRIBUTE
int cuDeviceGetAttribute(int *v, int a, int d) { *v = a == 75 ? 9 : 0; return 0; }
#endif
int cuDeviceTotalMem_v2(size_t *n, int d) { *n = (size_t)3 << 20; return 0; }
#ifndef NO_OPTIONAL
int cuGetErrorName(int e, const char **s)
{
    *s = e ? "CUDA_ERROR_NO_DEVICE" : "CUDA_SUCCESS";
    return 0;
}
#endif
"""

DEF = ROOT / "native/dl/cuda.def"
# Every other function that a driver must have.
CUDA += "".join(
    f"int {name}(void) {{ return 801; }}\n"
    for name in re.findall(r"^SP_CU\(required, \d+, (\w+)", DEF.read_text(), re.M)
    if f"int {name}(" not in CUDA
)

EGL = r"""
#include <stdlib.h>
#include <string.h>
typedef void (*fn)(void);
const char *eglQueryString(void *display, int name)
{
    return display ? 0 : name == 0x3054 ? VERSION : EXTENSIONS;
}
static int devices(int max, void **d, int *n)
{
    *n = 2;
    for (long i = 0; i < 2 && i < max; i++)
        d[i] = (void *)(i + 1);
    return 1;
}
static const char *device_string(void *d, int name)
{
    if (name == 0x3055)
        return (long)d == 2 ? "EGL_MESA_device_software"
                            : "EGL_EXT_device_drm EGL_EXT_device_drm_render_node";
    return name == 0x3377 ? "/dev/dri/renderD128" : 0;
}
fn eglGetProcAddress(const char *name)
{
    if (GETPROC && !strcmp(name, "eglQueryDevicesEXT"))
        return (fn)devices;
    if (GETPROC && !strcmp(name, "eglQueryDeviceStringEXT"))
        return (fn)device_string;
    return (fn)abort; /* as real ones do: an answer for a name they do not have */
}
"""
ENUMERATES = "EGL_EXT_client_extensions EGL_EXT_device_enumeration"


@pytest.fixture
def build(tmp_path):
    """build(source, **macros) -> path of a shared library made of that source."""

    def make(source: str, **macros: object) -> str:
        library = tmp_path / f"lib{len(list(tmp_path.iterdir()))}.so"
        flags = [f"-D{name}={value}" for name, value in macros.items()]
        compiler = shutil.which("gcc") or "cc"
        command = [compiler, "-shared", "-fPIC", "-x", "c", "-", "-o", str(library), *flags]
        subprocess.run(command, input=source.encode(), check=True, capture_output=True)
        return str(library)

    return make


def probe(which: str, *attempts: str) -> dict:
    """The answer to the last of several probes in one fresh process."""
    command = [sys.executable, "-c", PROBE, which, *attempts]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return json.loads(done.stdout)


def test_cuda_devices(build):
    library = build(CUDA, INIT=0, COUNT=2)
    got = probe("cuda", library)
    assert (got["rc"], got["init_result"], got["init_name"]) == (0, 0, "CUDA_SUCCESS")
    assert (got["driver_version"], got["device_count"], got["library"]) == (12040, 2, library)
    assert got["report"] == f"{library}: loaded\n"
    line = "Fake {}, compute capability 9.0, 3 MiB\n"
    assert got["devices"] == f"0: {line.format(100)}1: {line.format(101)}"


def test_cuda_without_a_device(build):
    got = probe("cuda", build(CUDA, INIT=100, COUNT=2))
    assert (got["rc"], got["init_result"], got["init_name"]) == (0, 100, "CUDA_ERROR_NO_DEVICE")
    assert (got["device_count"], got["devices"]) == (0, "")


def test_a_missing_optional_symbol_is_done_without(build):
    got = probe("cuda", build(CUDA, INIT=0, COUNT=1, NO_OPTIONAL=1))
    assert (got["rc"], got["init_name"]) == (0, "")
    assert got["devices"] == "0: Fake 100, compute capability 9.0, 3 MiB\n"


def test_a_missing_required_symbol_is_named_and_the_next_path_tried(build):
    bad, good = build(CUDA, INIT=0, COUNT=0, NO_ATTRIBUTE=1), build(CUDA, INIT=0, COUNT=0)
    alone = probe("cuda", bad)
    assert alone["rc"] == -errno.ELIBBAD
    assert alone["report"] == f"{bad}: has no symbol cuDeviceGetAttribute\n"
    assert alone["library"] == ""
    assert probe("cuda", f"{bad}\n/no/such.so")["rc"] == -errno.ELIBBAD
    both = probe("cuda", f"{bad}\n{good}")
    assert (both["rc"], both["library"]) == (0, good)
    assert both["report"] == alone["report"] + f"{good}: loaded\n"


def test_what_cannot_be_opened_is_reported_in_the_loaders_words(tmp_path):
    text = tmp_path / "libtext.so"
    text.write_text("this is no library, but it is long enough to have had a header\n" * 4)
    got = probe("cuda", f"/no/such/libcuda.so\n{text}\n")
    assert got["rc"] == -errno.ENOENT
    first, second = got["report"].splitlines()
    assert first.startswith("/no/such/libcuda.so: cannot open shared object file")
    assert second == f"{text}: invalid ELF header"


@pytest.mark.parametrize("paths", ["", "\n\n"])
def test_no_path_is_no_library(paths):
    got = probe("cuda", paths)
    assert (got["rc"], got["report"]) == (-errno.ENOENT, "")


def test_a_path_too_long_is_refused(build):
    got = probe("cuda", "/" + "x" * 300 + "\n" + build(CUDA, INIT=0, COUNT=0))
    assert got["rc"] == 0
    assert "a path this long is not supported" in got["report"].splitlines()[0]


def test_a_failed_device_gets_a_line_and_long_lists_are_cut_visibly(build):
    got = probe("cuda", build(CUDA, INIT=0, COUNT=500))
    lines = got["devices"].splitlines()
    assert lines[7] == "7: error 101"
    assert got["device_count"] == 500
    assert len(got["devices"]) == 4095
    assert got["devices"].endswith("...")


def test_a_process_keeps_what_served(build):
    one, two = build(CUDA, INIT=0, COUNT=1), build(CUDA, INIT=0, COUNT=2)
    got = probe("cuda", "/no/such.so", one, two)
    assert (got["library"], got["device_count"]) == (one, 1)
    assert got["report"] == f"{one}: loaded\n"


def test_egl_devices(build):
    library = build(EGL, VERSION='"1.5"', EXTENSIONS=f'"{ENUMERATES}"', GETPROC=1)
    got = probe("egl", library)
    assert (got["rc"], got["version"], got["device_count"]) == (0, "1.5", 2)
    assert got["extensions"] == ENUMERATES
    hardware, software = got["devices"].splitlines()
    assert hardware.startswith("0: /dev/dri/renderD128 (EGL_EXT_device_drm ")
    assert software == "1: software (EGL_MESA_device_software)"


@pytest.mark.parametrize(
    "extensions", ["0", '"EGL_EXT_device_enumeration_2 EGL_EXT_client_extensions"']
)
def test_egl_functions_are_believed_only_with_their_extension(build, extensions):
    """eglGetProcAddress of this fake answers with abort(): a call would end the probe."""
    got = probe("egl", build(EGL, VERSION="0", EXTENSIONS=extensions, GETPROC=0))
    assert (got["rc"], got["version"], got["device_count"], got["devices"]) == (0, "", -1, "")


@pytest.mark.parametrize("which", ["cuda", "egl"])
def test_this_machine_is_probed_without_harm(which):
    got = probe(which, "default")
    assert got["rc"] in (0, -errno.ENOENT, -errno.ELIBBAD)
    if got["rc"]:
        from sparkle_drv._native import ffi, lib

        paths = ffi.string(getattr(lib, f"sp_dl_{which}_paths")()).decode().splitlines()
        assert [line.partition(":")[0] for line in got["report"].splitlines()] == paths
    else:
        assert Path(got["library"]).name.startswith(f"lib{'cuda' if which == 'cuda' else 'EGL'}")
