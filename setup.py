"""Builds the three extensions and the preload library, puts shaders/ and tools/ inside the package.

All metadata is in pyproject.toml. setuptools compiles an extension's files one after another, and
all of them when one changed; `BuildExt` compiles per object, in parallel, only what changed: the
compiler's own dependency files say which headers an object saw, the command line stored beside it
how it was made. Every file gets the same flags but for `-Os`: a kernel that needs an instruction
set says so itself (`#pragma GCC target`). CC, CFLAGS, LDSHARED and LDFLAGS of the environment are
honoured, the flags with which the interpreter happened to be built (-g, RUNPATH) are not.
"""

import ast
import functools
import io
import lzma
import multiprocessing
import os
import re
import shlex
import shutil
import struct
import subprocess
import sysconfig
import tokenize
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.errors import CompileError

# -fno-strict-aliasing: command records and arguments are bytes from Python, read as structs in C.
# Without unwind tables, a tenth of the library: nothing here unwinds; who debugs builds with -g.
C_FLAGS = (
    "-std=gnu11 -O2 -fno-math-errno -Wall -Wextra -fPIC -fvisibility=hidden -fno-strict-aliasing "
    "-fno-unwind-tables -fno-asynchronous-unwind-tables -pthread"
)
LINK_FLAGS = "-shared -pthread -Wl,-O1,--as-needed,-z,relro,-z,now"
STRIP = "-Wl,--strip-all"
# Compiled for size, as cffi's wrappers are: the emulator (40 KB of the wheel, 4 % of its speed),
# what runs when a device is opened and never again, what allocates and looks how far work is, what
# calls a GL driver, and the portable kernels: 25 KB of the wheel; gemm and conv2d take 0.85 of the
# time, map the same, reduce 1.2 (AMD EPYC, family 26).
FOR_SIZE = (
    *("native/emu/", "native/dl/", "native/kmd/", "native/egl/", "native/cpu/isa/ref.c"),
    *("native/amdgpu/device/", "native/amdgpu/memory/", "native/amdgpu/progress/"),
    *("native/cuda/device/", "native/cuda/memory/", "native/cuda/progress/"),
    "native/cpu/small/strided.c",
)
# Of sparkle_drv/, what only tests and benchmarks of a checkout use.
JUDGES = (*("emulated_dispatch.py", "emulated_kernels.py", "fault_suite.py"),)
OF_TESTS = ("cluster/transport/air.py", *(f"testing/{name}" for name in JUDGES))
# Of shaders/ and tools/, what only a checkout needs.
GENERATORS = ("gen.py", "_gen")  # they write into native/
SET_UP = ("setup_env.py", "_packages.py", "_egl_check.py")
# They build and pack the package.
ARCHIVES = ("bringup_archive.py", "gpu_kit.py", "wheels.py", "_kit")
NOT_INSTALLED = (
    *("__pycache__", "*.pyc", "*.sh", "README.md", *SET_UP, *ARCHIVES, *GENERATORS),
    *("loc.py", "_loc"),
    # blobs go along, their sources need a compiler
    *("*.cl", "*.cu", "*.h", "shaders.py", "_shaders"),
)


def compiler():
    """The C compiler as a list: CC, else the first of gcc, cc, clang."""
    named = shlex.split(os.environ.get("CC", ""))
    found = next((name for name in ("gcc", "cc", "clang") if shutil.which(name)), "gcc")
    return named or [found]


def linker():
    """What links, as a list: LDSHARED, else the compiler."""
    return shlex.split(os.environ.get("LDSHARED", "")) or compiler()


def prerequisites(depfile):
    """What an object was made from, as the compiler wrote it down."""
    text = depfile.read_text().replace("\\\n", " ")
    return [Path(name) for name in shlex.split(text.partition(":")[2])]


def is_fresh(product, record, command, inputs):
    """Was `product` made by this very command after the last change of its inputs?"""
    try:
        made = product.stat().st_mtime_ns
        return record.read_text() == command and all(i.stat().st_mtime_ns <= made for i in inputs())
    except OSError:
        return False


def make(command, what, record):
    """Runs a compiler; the record of its command appears only when that ended well."""
    record.unlink(missing_ok=True)
    print(f"{what}\n", end="", flush=True)  # in one write: other threads print too
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, check=False)
    except OSError as error:
        raise CompileError(f"{what}: cannot run {command[0]}: {error.strerror}") from error
    if done.returncode:
        raise CompileError(f"{what}: {shlex.join(command)}\nended with {done.returncode}")
    record.write_text(shlex.join(command))


def clear_addends(path):
    """Zeroes what a relative relocation overwrites when the library is loaded.

    GNU ld writes each addend twice: into the relocation and into the place it relocates. The
    loader reads only the first (System V ABI, relocation: entries with an explicit addend). The
    second takes 22 KB of the wheel. ELF of another class or byte order stays as it is.
    """
    relative = {62: 8, 183: 1027}  # e_machine: R_X86_64_RELATIVE, R_AARCH64_RELATIVE
    image = bytearray(path.read_bytes())
    if image[:6] != b"\x7fELF\x02\x01":  # 64 bits, little-endian
        return
    (machine,) = struct.unpack_from("<H", image, 18)
    (table,) = struct.unpack_from("<Q", image, 40)
    size, count = struct.unpack_from("<HH", image, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", image, table + size * i) for i in range(count)]
    filled = [s for s in sections if s[3] and s[1] != 8]  # those with an address and contents
    for _, kind, _, _, start, length, *_ in sections:
        for entry in range(start, start + length, 24) if kind == 4 else ():  # SHT_RELA
            address, info, _ = struct.unpack_from("<QQq", image, entry)
            if info != relative.get(machine):
                continue
            offset = next(s[4] + address - s[3] for s in filled if 0 <= address - s[3] < s[5])
            image[offset : offset + 8] = bytes(8)
    path.write_bytes(image)


class BuildExt(build_ext):
    def finalize_options(self):
        # An editable install gives every command a temporary folder: with it nothing is reused.
        self.build_temp = self.build_temp or "build/obj"
        super().finalize_options()
        self.jobs = int(self.parallel or len(os.sched_getaffinity(0)))

    def build_extension(self, ext):
        with ThreadPoolExecutor(self.jobs) as pool:
            objects = list(pool.map(lambda source: self.compile(ext, source), ext.sources))
        self.link(ext, objects)

    def compile(self, ext, source):
        """The object of one source file, made anew if it is stale."""
        ours = source.startswith("native")
        generated = not ours  # by cffi, in build_temp
        stem = Path(source) if generated else Path(self.build_temp, source)
        obj, dep, record = (stem.with_suffix(end) for end in (".o", ".d", ".cmd"))
        obj.parent.mkdir(parents=True, exist_ok=True)
        folders = list(ext.include_dirs)
        flags = shlex.split(C_FLAGS)
        if generated or source.startswith(FOR_SIZE):
            flags += ["-Os"]
        flags += shlex.split(os.environ.get("CFLAGS", ""))
        flags += [f"-D{name}={value or 1}" for name, value in ext.define_macros]
        if generated:  # that text is not ours to keep free of warnings
            flags += ["-w"]
        if generated or ext.name.endswith("._hot"):
            # Often the same; in one order, since the command is compared with the last one.
            folders += sorted({sysconfig.get_path(name) for name in ("include", "platinclude")})
        command = [*compiler(), *flags, *(f"-I{folder}" for folder in folders)]
        command += ["-MMD", "-MF", str(dep), "-c", source, "-o", str(obj)]
        if not is_fresh(obj, record, shlex.join(command), lambda: prerequisites(dep)):
            make(command, f"cc {source}", record)
        return obj

    def link(self, ext, objects):
        self.link_to(Path(self.get_ext_fullpath(ext.name)), ext.name, objects, ext.libraries)

    def link_to(self, target, name, objects, libraries):
        record = Path(self.build_temp, f"{name}.link")
        fresh = target.with_suffix(".new")
        fresh.parent.mkdir(parents=True, exist_ok=True)
        flags = shlex.split(f"{LINK_FLAGS} {os.environ.get('LDFLAGS', '')}")
        if "-g" not in shlex.split(os.environ.get("CFLAGS", "")):
            flags += [STRIP]
        command = [*linker(), *flags, "-o", str(fresh), *map(str, objects)]
        command += [f"-l{name}" for name in libraries]
        if not is_fresh(target, record, shlex.join(command), lambda: objects):
            make(command, f"ld {target}", record)
            clear_addends(fresh)
            fresh.replace(target)  # a process that runs the old one keeps it


class BuildPreload(BuildExt):
    """native/emu/preload with the emulator's objects and the recorder's, by default in
    build/preload: a library for LD_PRELOAD, which no wheel carries. All is compiled as the
    extension's part of it is.
    """

    def finalize_options(self):
        self.build_lib = self.build_lib or "build/preload"
        super().finalize_options()

    def run(self):
        (emu,) = (ext for ext in self.extensions if ext.name.endswith("._emu"))
        more = (
            ("native/emu/preload", "*.c"),
            ("native/kmd", "record*.c"),
            ("native/kmd", "ioctl.c"),
            ("native/kmd", "target.c"),
            ("native/core", "base.c"),
        )
        found = (str(path) for folder, names in more for path in sorted(Path(folder).glob(names)))
        sources = [*emu.sources[1:], *found]
        with ThreadPoolExecutor(self.jobs) as pool:
            objects = list(pool.map(lambda source: self.compile(emu, source), sources))
        target = Path(self.build_lib, "libsparkle_amdgpu.so")
        self.link_to(target, target.stem, objects, emu.libraries)


def not_installed(folder, names):
    """What stays behind of a folder: besides NOT_INSTALLED, PTX for sm_90a that says what PTX for
    sm_80 does, which every later GPU takes."""
    ignored = shutil.ignore_patterns(*NOT_INSTALLED)(folder, names)
    for name in names:
        older = Path(folder, name.replace(".sm_90a.", ".sm_80."))
        if name.endswith(".sm_90a.ptx") and older.is_file():
            text = Path(folder, name).read_text().replace(".target sm_90a", ".target sm_80")
            if text == older.read_text():
                ignored.add(name)
    return ignored


def pack_images(shaders):
    """Kernel images as .xz, which assets.image() unpacks: 35 KB of the wheel less than deflated.

    One by one: all of a target together take 20 KB less, but 5 ms of the first kernel.
    """
    for path in [*shaders.rglob("*.ptx"), *shaders.rglob("*.hsaco")]:
        packed = lzma.compress(path.read_bytes(), preset=9 | lzma.PRESET_EXTREME)
        path.with_name(path.name + ".xz").write_bytes(packed)
        path.unlink()


def is_text(node):
    constant = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return constant and isinstance(node.value.value, str)


def unread_texts(node, private):
    """Texts in the body of a module, class or function that nobody's help() shows: below
    attributes, and docstrings of what is private. A decorator may read those, so they stay."""
    documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
    nameless = private and documented and len(node.body) > 1
    nameless = nameless and not getattr(node, "decorator_list", None)
    for told in node.body[not nameless :] if documented else ():
        if is_text(told):
            yield told
    for inner in ast.iter_child_nodes(node):
        name = getattr(inner, "name", None) or ""
        hidden = isinstance(node, ast.FunctionDef) or re.match("_(?!.*__$)", name)
        yield from unread_texts(inner, private or hidden)


def without_comments(text, private=False):
    """Python source without comments and texts that nobody's help() shows; every line stays where
    it was. `private`: the whole module is."""
    lines = text.splitlines(keepends=True)
    for told in unread_texts(ast.parse(text), private):
        begin, end = told.lineno - 1, told.end_lineno
        lines[begin:end] = ["\n"] * (end - begin)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column].rstrip() + "\n"
    return "".join(lines)


# Rooms of names that are not public: their docstrings, 100 KB of the wheel, stay in the repository.
INSIDE = (
    "tools/_", "/sched/", "/cluster/", "/codegen/", "/mesh/", "/telemetry/", "/backends/",
    "/testing/checks/", "/amd/", "/ops/expression/", "/ops/calls/",
    "/ops/deferred/", "/ops/arguments/", "/ops/shapes/geometry", "/ops/shapes/space",
    "/ops/memory/staging", "/ops/memory/foreign", "/ops/map/fused", "/ops/strided/moves",
    "/core/abi/", "/core/deferred/", "/core/launch_errors", "/core/numpy_layout", "/core/retire",
)  # fmt: skip
# The modules in them that define public names (docs/api.md).
SHOWN = (
    "mesh/mesh.py", "mesh/topology.py", "sched/journal/journal_replay.py", "backends/base.py",
    "backends/abilities.py", "core/abi/records.py", "core/abi/signature.py",
    "ops/expression/trace.py", "core/deferred/operators.py",
)  # fmt: skip


class BuildPy(build_py):
    """An installed package carries shaders/ and tools/; a checkout has them beside it. Comments,
    55 KB of the wheel, and docstrings of what is private, 44 KB, are for who changes the code: the
    sdist and the repository have them.
    """

    def run(self):
        super().run()
        if not self.editable_mode:
            package = Path(self.build_lib, "sparkle_drv")
            for name in OF_TESTS:
                shutil.rmtree(package / name, ignore_errors=True)
                Path(package, name).unlink(missing_ok=True)
            for name in ("shaders", "tools"):
                inside = package / name
                shutil.rmtree(inside, ignore_errors=True)
                shutil.copytree(name, inside, ignore=not_installed)
            pack_images(package / "shaders")
            for path in package.rglob("*.py"):
                where = path.as_posix()
                private = any(room in where for room in INSIDE) and not where.endswith(SHOWN)
                path.write_text(without_comments(path.read_text(), private))


class Deflated:
    """Stands for zlib's compressor object, with what zopfli has made of a file already."""

    def __init__(self, made):
        self.made = made[2:-4]  # without zlib's header and sum

    def compress(self, data):
        return b""

    def flush(self):
        return self.made


class BdistWheel(bdist_wheel):
    """Packs the wheel by zopfli, 4 % smaller than by zlib's highest level (80 KB)."""

    def run(self):
        import zopfli.zlib  # wheels need it, a checkout does not

        super().run()
        path = self.distribution.dist_files[-1][2]
        with zipfile.ZipFile(path) as packed:
            files = [(info, packed.read(info)) for info in packed.infolist()]
        # Processes, since zopfli keeps the interpreter's lock; it takes 50 s of one core.
        with multiprocessing.get_context("fork").Pool() as pool:
            deflate = functools.partial(zopfli.zlib.compress, numiterations=15, blocksplittingmax=0)
            made = pool.map(deflate, [data for _, data in files], chunksize=1)
        with zipfile.ZipFile(path, "w") as wheel:
            # zipfile has no public way to store what is compressed already.
            ready = map(Deflated, made)
            zipfile._get_compressor = lambda *_: next(ready)
            for info, data in files:
                wheel.writestr(info, data, zipfile.ZIP_DEFLATED)


# Free-threaded Python has no stable ABI: there, extensions are for one version.
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))

HOT = Extension(
    "sparkle_drv._hot",
    sorted(str(source) for source in Path("native/hot").rglob("*.c")),
    depends=sorted(str(header) for header in Path("native/hot").rglob("*.h")),
    include_dirs=["native"],
    py_limited_api=not FREE_THREADED,
)

setup(
    ext_modules=[HOT],
    cffi_modules=["native/build_ffi.py:native", "native/build_ffi.py:emu"],
    cmdclass={
        "build_ext": BuildExt,
        "build_preload": BuildPreload,
        "build_py": BuildPy,
        "bdist_wheel": BdistWheel,
    },
    options={} if FREE_THREADED else {"bdist_wheel": {"py_limited_api": "cp310"}},
)
