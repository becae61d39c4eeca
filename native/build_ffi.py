"""The two cffi builders: `native` (everything for run time), `emu` (test equipment on top of it).

setup.py names them in `cffi_modules`; nothing imports this file at run time. The compiler and cffi
read the same headers in native/include; cdef gets only the lines that do not start with '#'. Every
file there is part of the build: `sp_emu*.h` and native/emu/**/*.c belong to `emu`, every other
header and source to `native`. An include names its file from native/, or by its bare name in the
same folder.
"""

import os
import re
from pathlib import Path

from cffi import FFI

# setuptools runs this file with a relative __file__ and wants sources relative to setup.py.
HERE = Path(os.path.relpath(Path(__file__).resolve().parent))
INCLUDE = HERE / "include"


def _in_order(headers):
    """Headers, each after those it includes: cdef sees a type before its first use."""
    done = []

    def visit(header):
        for name in re.findall(r'^#include "(sp_\w+\.h)"', header.read_text(), re.M):
            if INCLUDE / name in headers:
                visit(INCLUDE / name)
        if header not in done:
            done.append(header)

    for header in headers:
        visit(header)
    return done


def _builder(module, headers, sources, base=None, base_headers=()):
    ffi = FFI()
    if base is not None:
        ffi.include(base)
    for header in _in_order(headers):
        lines = header.read_text().splitlines()
        text = "\n".join("" if line.startswith("#") else line for line in lines)
        if base is None:  # `emu`, which includes it, would repeat the constants of enums with a tag
            text = re.sub(r"^enum \w+ \{", "enum {", text, flags=re.M)
        ffi.cdef(text)
    ffi.set_source(
        module,
        "".join(f'#include "include/{header.name}"\n' for header in [*base_headers, *headers]),
        sources=[str(source) for source in sources],
        include_dirs=[str(HERE)],
        libraries=["m", "dl"],
    )
    return ffi


_headers = sorted(INCLUDE.glob("sp_*.h"))
# setup.py links the preload library from the same objects; its own part is in no extension.
# native/hot is an extension without cffi, which setup.py names.
_ELSEWHERE = (HERE / "emu" / "preload", HERE / "hot")
_sources = sorted(c for c in HERE.rglob("*.c") if not set(_ELSEWHERE) & set(c.parents))
_emu_headers = [header for header in _headers if header.name.startswith("sp_emu")]
_emu_sources = [source for source in _sources if HERE / "emu" in source.parents]
_native_headers = [header for header in _headers if header not in _emu_headers]
_native_sources = [source for source in _sources if source not in _emu_sources]

native = _builder("sparkle_drv._native", _native_headers, _native_sources)
emu = _builder("sparkle_drv._emu", _emu_headers, _emu_sources, native, _native_headers)
