"""Builds the two extensions and puts shaders/ and tools/ inside the package; all metadata is in pyproject.toml.

setuptools compiles an extension's files one after another and all of them whenever one changed. `BuildExt` compiles
per object, in parallel, and only what changed: the compiler's own dependency files say which headers an object saw, the
command line stored beside it says how it was made. One set of flags for every file: a kernel that needs an instruction
set says so itself (`#pragma GCC target`). CC, CFLAGS and LDFLAGS from the environment are honoured, the flags with
which the interpreter happened to be built (-g, RUNPATH) are not.
"""

import os
import shlex
import shutil
import subprocess
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setuptools import setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.errors import CompileError

# -fno-strict-aliasing: command records and argument blocks are bytes written by Python and read as structs here.
C_FLAGS = "-std=gnu11 -O2 -Wall -Wextra -fPIC -fvisibility=hidden -fno-strict-aliasing -pthread".split()
LINK_FLAGS = "-shared -pthread -Wl,-O1,--as-needed,-z,relro,-z,now".split()
STRIP = "-Wl,--strip-all"
NOT_INSTALLED = ("__pycache__", "*.pyc", "setup_env.py")  # of shaders/ and tools/


def compiler():
    """The C compiler as a list: CC, else the first of gcc, cc, clang."""
    named = shlex.split(os.environ.get("CC", ""))
    found = next((name for name in ("gcc", "cc", "clang") if shutil.which(name)), "gcc")
    return named or [found]


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


class BuildExt(build_ext):
    def finalize_options(self):
        # Not the temporary folder that an editable install chooses for all commands: it would compile everything anew.
        self.build_temp = self.build_temp or "build/obj"
        super().finalize_options()
        Path(self.build_temp).mkdir(parents=True, exist_ok=True)
        self.jobs = int(self.parallel or len(os.sched_getaffinity(0)))

    def build_extension(self, ext):
        with ThreadPoolExecutor(self.jobs) as pool:
            objects = list(pool.map(lambda source: self.compile(ext, source), ext.sources))
        self.link(ext, objects)

    def compile(self, ext, source):
        """The object of one source file, made anew if it is stale."""
        generated = source == ext.sources[0]
        stem = Path(source) if generated else Path(self.build_temp, source)
        obj, dep, cmd = (stem.with_suffix(end) for end in (".o", ".d", ".cmd"))
        obj.parent.mkdir(parents=True, exist_ok=True)
        include = list(ext.include_dirs)
        macros = [f"-D{name}" if value is None else f"-D{name}={value}" for name, value in ext.define_macros]
        flags = [*C_FLAGS, *macros, *shlex.split(os.environ.get("CFLAGS", ""))]
        if generated:  # cffi's text is not ours to keep free of warnings
            include += dict.fromkeys(sysconfig.get_path(which) for which in ("include", "platinclude"))
            flags += ["-w"]
        command = [*compiler(), *flags, *(f"-I{folder}" for folder in include), "-MMD", "-MF", str(dep)]
        command += ["-c", source, "-o", str(obj)]
        if not is_fresh(obj, cmd, shlex.join(command), lambda: prerequisites(dep)):
            self.execute_and_record(command, f"cc {source}", cmd)
        return obj

    def link(self, ext, objects):
        target = Path(self.get_ext_fullpath(ext.name))
        cmd = Path(self.build_temp, f"{ext.name}.link")
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = target.with_suffix(".new")
        extra = shlex.split(os.environ.get("LDFLAGS", ""))
        strip = [] if "-g" in shlex.split(os.environ.get("CFLAGS", "")) else [STRIP]
        command = [*compiler(), *LINK_FLAGS, *strip, *extra, "-o", str(fresh), *map(str, objects)]
        command += [f"-l{name}" for name in ext.libraries]
        if not is_fresh(target, cmd, shlex.join(command), lambda: objects):
            self.execute_and_record(command, f"ld {target}", cmd)
            fresh.replace(target)  # a process that runs the old one keeps it

    def execute_and_record(self, command, what, record):
        record.unlink(missing_ok=True)
        print(what, flush=True)
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, check=False)
        except OSError as error:
            raise CompileError(f"{what}: cannot run {command[0]}: {error}") from error
        if done.returncode:
            raise CompileError(f"{what}: {shlex.join(command)} ended with status {done.returncode}")
        record.write_text(shlex.join(command))


class BuildPy(build_py):
    """An installed package carries shaders/ and tools/ in its own folder; a checkout has them beside it."""

    def run(self):
        super().run()
        if not self.editable_mode:
            for name in ("shaders", "tools"):
                inside = Path(self.build_lib, "sparkle_drv", name)
                shutil.rmtree(inside, ignore_errors=True)
                shutil.copytree(name, inside, ignore=shutil.ignore_patterns(*NOT_INSTALLED))


setup(
    cffi_modules=["native/build_ffi.py:native", "native/build_ffi.py:emu"],
    cmdclass={"build_ext": BuildExt, "build_py": BuildPy},
    options={"bdist_wheel": {"py_limited_api": "cp310"}},
)
