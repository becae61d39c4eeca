"""The first file of bringup.pyz: unpacks the running Python's wheels and runs the tool.

python3 bringup.pyz [ladder|mem|info] ...    tools/bringup.py
python3 bringup.pyz pm4 ...                  another tool of the package, by name
python3 bringup.pyz record COMMAND ...       writes down a program's ioctls and IBs
python3 bringup.pyz check                    only checks that nothing is missing

Any Python from 2.7 on can read this file. It reports missing parts before anything else happens and
downloads nothing. It unpacks the wheels once, into XDG_CACHE_HOME or ~/.cache, or into a temporary
folder if neither can be written.
"""

import atexit
import errno
import json
import os
import platform
import re
import runpy
import shutil
import stat
import sys
import tempfile
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))  # in a zipapp this is the archive itself
OTHERS = ("pm4", "rdna_as", "sparkle", "info", "doctor", "bench")
OK, FAILED = 0, 1


def say(text):
    sys.stderr.write("bringup.pyz: %s\n" % text)


def glibc():
    """Returns the version of glibc as (2, 36), or None if the C library is not glibc."""
    try:
        name, _, numbers = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    except (AttributeError, OSError, ValueError):
        name, numbers = platform.libc_ver()  # guessed from the interpreter's file
    parts = numbers.split(".")
    known = name == "glibc" and all(part.isdigit() for part in parts)
    return tuple(int(part) for part in parts) if known else None


def tag():
    """Returns the key of this Python's wheels: "cp311", or "cp314t" for a build without the GIL."""
    free = not getattr(sys, "_is_gil_enabled", lambda: True)() or "t" in getattr(
        sys, "abiflags", ""
    )
    return "cp%d%d%s" % (sys.version_info[0], sys.version_info[1], "t" if free else "")


def version(numbers):
    return ".".join(str(number) for number in numbers)


def missing(manifest):
    """Returns what this machine lacks to run the archive, one line for each lack."""
    found = []
    pythons = ", ".join("3.%s" % key[3:] for key in sorted(manifest["pythons"]))
    where = "%s is CPython %s" % (sys.executable, version(sys.version_info[:2]))
    if not sys.platform.startswith("linux"):
        found.append("expected Linux, got %s" % sys.platform)
    if platform.machine() not in ("x86_64", "AMD64") or sys.maxsize < 2**32:
        found.append("expected 64-bit x86, got %s" % platform.machine())
    if platform.python_implementation() != "CPython":
        found.append("expected CPython, got %s" % platform.python_implementation())
    elif tag() not in manifest["pythons"]:
        old = sys.version_info[:2] < (3, 10)
        kind = (
            "too old" if old else "without a GIL" if tag().endswith("t") else "not in the archive"
        )
        found.append("%s, %s: the archive has CPython %s" % (where, kind, pythons))
    if sys.platform.startswith("linux"):
        libc, wanted = glibc(), tuple(manifest["glibc"])
        if libc is None:
            found.append("expected glibc %s, got another C library (musl?)" % version(wanted))
        elif libc < wanted:
            found.append("got glibc %s, expected %s" % (version(libc), version(wanted)))
    return found


def nodes(folder="/dev/dri"):
    """Returns why no card can be opened, one line for each reason; an empty list when a card can be
    opened.
    """
    try:
        names = sorted(name for name in os.listdir(folder) if name.startswith("renderD"))
    except OSError as error:
        if error.errno == errno.EACCES:
            return ["no permission for %s: %s" % (folder, owner(folder))]
        names = []
    if not names:
        return [
            "no render node in %s: no card whose driver is loaded (amdgpu), "
            "or a container without --device /dev/dri" % folder
        ]
    found = []
    for name in names:
        path = os.path.join(folder, name)
        if os.access(path, os.R_OK | os.W_OK):
            return []
        found.append("no permission for %s: %s" % (path, owner(path)))
    return found


def owner(path):
    about = os.stat(path)
    try:
        import grp

        group = grp.getgrgid(about.st_gid).gr_name
    except (ImportError, KeyError):
        group = str(about.st_gid)
    advice = "'usermod -aG %s USER', then log in again" % group
    if not about.st_gid:
        # The device file belongs to group root (0). Joining that group would give a user too many
        # rights.
        advice = "udev has not given it to group render (in a container: add that group)"
    return "it belongs to group %s (mode %o); %s" % (group, stat.S_IMODE(about.st_mode), advice)


def unpack(archive, manifest, place):
    """Unpacks the wheels for the running Python, and the shared libraries of `manifest`, into the
    folder `place`.
    """
    for name in manifest["pythons"][tag()]:
        with archive.open("wheels/" + name) as packed, tempfile.TemporaryFile() as whole:
            shutil.copyfileobj(packed, whole)
            with zipfile.ZipFile(whole) as wheel:
                wheel.extractall(place)
    for name in manifest["libraries"]:
        with archive.open("lib/" + name) as packed, open(os.path.join(place, name), "wb") as out:
            shutil.copyfileobj(packed, out)


def cache():
    """Returns the path of a folder in which this user may write, or None."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    place = os.path.join(base, "sparkle_drv")
    try:
        if not os.path.isabs(place):
            return None
        os.makedirs(place, 0o700, exist_ok=True)
        about = os.stat(place)
    except OSError:
        return None
    others = about.st_uid != os.getuid() or about.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return None if others or not os.access(place, os.W_OK) else place


def unpacked(archive, manifest):
    """Returns the folder with the packages, which is made when missing."""
    parent = cache()
    if parent is None:
        place = tempfile.mkdtemp(prefix="bringup-")
        atexit.register(shutil.rmtree, place, True)
        unpack(archive, manifest, place)
        return place
    place = os.path.join(parent, "bringup-%s-%s" % (manifest["digest"], tag()))
    if not os.path.isdir(place):
        made = tempfile.mkdtemp(prefix="new-", dir=parent)
        try:
            unpack(archive, manifest, made)
            os.rename(made, place)
        except OSError:
            shutil.rmtree(made, True)
            if not os.path.isdir(place):  # another process may have made it first
                raise
    return place


def absent_library(error):
    """Returns the shared library whose absence caused an ImportError; "" for another cause."""
    while error is not None:
        found = re.search(r"(lib\S+\.so\S*): cannot open shared object", str(error))
        if found:
            return found.group(1)
        error = error.__cause__ or error.__context__
    return ""


def record(place, command):
    """Runs a program with the recorder preloaded. Does not return."""
    if not command or command[0].startswith("-"):
        say("record COMMAND ...: SPARKLE_RECORD names the file, default sparkle-PID.rec here")
        return 2
    library = os.path.join(place, "libsparkle_amdgpu.so")
    before = os.environ.get("LD_PRELOAD")
    preload = library + (" " + before if before else "")
    env = dict(os.environ, LD_PRELOAD=preload)
    env.setdefault("SPARKLE_EMU", "record")
    try:
        os.execvpe(command[0], command, env)
    except OSError as error:
        say("record %s: %s" % (command[0], error.strerror))
    return FAILED


def main(argv):
    try:
        import zlib  # noqa: F401
    except ImportError:
        say("this Python has no zlib")
        return FAILED
    with zipfile.ZipFile(HERE) as archive:
        manifest = json.loads(archive.read("manifest.json").decode())
        lacking = missing(manifest)
        for line in lacking:
            say(line)
        if lacking:
            return FAILED
        if argv[:1] == ["check"]:
            found = nodes()
            for line in found:
                say(line)
            return FAILED if found else OK
        try:
            place = unpacked(archive, manifest)
        except (OSError, zipfile.BadZipFile) as error:
            say("cannot be unpacked: %s" % error)
            return FAILED
    if argv[:1] == ["record"]:
        return record(place, argv[1:])
    words = " ".join(argv)
    if argv[:1] in (["ladder"], ["mem"]) and not any(d in words for d in ("emu", "cpu", "egl")):
        for line in nodes():
            say(line)  # why no card can be opened; the ladder's first rungs give details
    sys.path.insert(0, place)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [place, os.environ.get("PYTHONPATH")]))
    tool = argv if argv[:1] and argv[0] in OTHERS and argv[0] != "info" else ["bringup"] + argv
    sys.argv = ["sparkle_drv"] + tool
    try:
        runpy.run_module("sparkle_drv", run_name="__main__", alter_sys=True)
    except ImportError as error:
        library = absent_library(error)
        if library:
            say("this machine has no %s, which a part of the archive needs" % library)
        else:
            say("a part in %s is missing or damaged (%s): remove that folder" % (place, error))
        return FAILED
    return OK


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
