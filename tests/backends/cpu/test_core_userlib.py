"""User kernels from shared libraries: the calling convention, and files that are no such library.

When this fails, a user's C kernel gets other arguments than it was launched with.
"""

import random
import struct
import subprocess
import sys

import numpy as np
import pytest
from census import census, none_left

import sparkle_drv as sp


def test_the_calling_convention(cpu, userlib):
    out = np.zeros((2, 3, 4, 8), np.uint64)
    data = np.array([-5], np.int8)
    with cpu.kernel(image=userlib.show(), entry="show", args="f64 f32 i8* i32 u64* i64") as k:
        assert (k.name, k.form, k.dims, k.group_size) == ("show", "grid", 3, (1, 1, 1))
        shape = {"groups": (4, 3, 2), "group_size": (5, 6, 7)}
        cpu.default_queue.launch(k, 1.5, 2.5, data, -7, out, -(2**40), **shape).wait()
    rows = out.reshape(-1, 8).view(np.int64)
    assert (rows == [3, 5, -5, -7, -(2**40), 70605, 1, 0]).all()


def test_path_text_and_bytes(cpu, userlib):
    path = userlib.mark(3)
    y = np.zeros(2, np.uint32)
    for image in (path, str(path), path.read_bytes()):
        with cpu.kernel(image=image, entry="mark", args="u32* y", group_size=4) as k:
            assert k.group_size == (4, 1, 1)
            assert k.args[0].name == "y"
            cpu.default_queue.launch(k, y, groups=2).wait()
    assert y.tolist() == [9, 9]


def test_two_libraries_with_one_entry_name(cpu, userlib):
    y = np.zeros(1, np.uint32)
    kernels = [
        cpu.kernel(image=userlib.mark(value), entry="mark", args="u32*") for value in (1, 10, 100)
    ]
    kernels.append(cpu.kernel(image=userlib.mark(1000).read_bytes(), entry="mark", args="u32*"))
    seen = []
    for k in kernels:
        y[0] = 0
        cpu.default_queue.launch(k, y, groups=1).wait()
        seen.append(int(y[0]))
        k.close()
    assert seen == [1, 10, 100, 1000]


def test_a_library_that_was_rebuilt(cpu, userlib, tmp_path):
    path = tmp_path / "k.so"
    y = np.zeros(1, np.uint32)
    path.write_bytes(userlib.mark(1).read_bytes())
    with cpu.kernel(image=path, entry="mark", args="u32*") as old:
        path.unlink()
        path.write_bytes(userlib.mark(2).read_bytes())
        with cpu.kernel(image=path, entry="mark", args="u32*") as new:
            cpu.default_queue.launch(old, y, groups=1).wait()
            assert y[0] == 1
            cpu.default_queue.launch(new, y, groups=1).wait()
            assert y[0] == 3


def test_every_group_runs_once_whatever_their_number(cpu, userlib):
    with cpu.kernel(image=userlib.mark(1), entry="mark", args="u32*") as k:
        for n in (1, 2, 3, 7, 8, 9, 100, 4099):
            y = np.zeros(n, np.uint32)
            cpu.default_queue.launch(k, y, groups=n).wait()
            assert (y == 1).all(), f"{n} groups"
            commands = sp.Commands().dispatch(k, cpu.wrap(y), groups=n)
            cpu.default_queue.submit(commands).wait()
            assert (y == 2).all(), f"{n} groups in a list"


@pytest.mark.parametrize("groups", [(2**32 - 1,) * 3, (2**32 - 1, 2**32 - 1, 2)])
def test_more_groups_than_64_bits_count(cpu, userlib, groups):
    y = np.zeros(1, np.uint32)
    with cpu.kernel(image=userlib.mark(1), entry="mark", args="u32*") as k:
        with pytest.raises(ValueError, match="groups"):
            cpu.default_queue.launch(k, y, groups=groups)
        with pytest.raises(ValueError, match="shared: expected 0 to 0 bytes on cpu, got 1"):
            cpu.default_queue.launch(k, y, groups=1, shared=1)
    assert y[0] == 0


def test_an_entry_that_is_not_there(cpu, userlib):
    with pytest.raises(sp.ImageError, match=r"\.so: .*undefined symbol: marc") as caught:
        cpu.kernel(image=userlib.mark(1), entry="marc", args="u32*")
    assert "/proc/" not in str(caught.value)
    blob = userlib.mark(1).read_bytes()
    with pytest.raises(sp.ImageError, match=f"image of {len(blob)} bytes"):
        cpu.kernel(image=blob, entry="nothing", args="u32*")


def test_a_library_that_needs_what_is_not_there(cpu, userlib):
    source = "void sparkle_never_defined(void);\nvoid f(void) { sparkle_never_defined(); }\n"
    with pytest.raises(sp.ImageError, match="sparkle_never_defined"):
        cpu.kernel(image=userlib.library(source), entry="f", args="")


@pytest.mark.parametrize(
    "blob", [b"", b"\n", b"not ELF", b"\x7fELF", b"\x7fELF" + bytes(200), bytes(1000),
             b"void f() {}" * 100, b"#!/bin/sh\nexit 0\n"]
)  # fmt: skip
def test_what_is_no_library(cpu, tmp_path, blob):
    path = tmp_path / "k.so"
    path.write_bytes(blob)
    for image, what in ((path, str(path)), (blob, f"image of {len(blob)} bytes")):
        with pytest.raises(sp.ImageError, match=what):
            cpu.kernel(image=image, entry="f", args="")


def test_a_file_that_is_not_there(cpu, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.so"):
        cpu.kernel(image=tmp_path / "none.so", entry="f", args="")
    for path in (tmp_path, "/dev/null"):
        with pytest.raises(sp.ImageError, match=f"{path} is not a regular file"):
            cpu.kernel(image=path, entry="f", args="")
    for path in ("a\0b", b"a".join([b""])):
        with pytest.raises(ValueError, match="image"):
            cpu.kernel(image=path, entry="f", args="")
    for given in (3, np.zeros(3)):
        with pytest.raises(TypeError, match="image: expected a path or bytes"):
            cpu.kernel(image=given, entry="f", args="")


def test_an_image_may_be_any_bytes(cpu, userlib):
    blob = userlib.mark(1).read_bytes()
    for image in (blob, bytearray(blob), memoryview(blob)):
        cpu.kernel(image=image, entry="mark", args="u32*").close()


def test_an_entry_that_is_no_function(cpu, userlib):
    source = (
        'int table[64] = {1};\nconst char text[] = "x";\n_Thread_local int mine;\nvoid f(void) {}\n'
    )
    path = userlib.library(source)
    for entry in ("table", "text", "mine"):
        with pytest.raises(sp.ImageError, match=f"{entry} is no function"):
            cpu.kernel(image=path, entry=entry, args="u32*")
    for entry in ("", "f\0g"):
        with pytest.raises(sp.ImageError, match="expected the name of a function"):
            cpu.kernel(image=path, entry=entry, args="")
    cpu.kernel(image=path, entry="f", args="").close()


def test_truncated_libraries(cpu, userlib):
    """Any prefix is refused in words, or, where nothing that is loaded is missing, it works."""
    blob = userlib.mark(7).read_bytes()
    rng = random.Random(len(blob))
    lengths = {*range(0, 200, 13), *(rng.randrange(len(blob)) for _ in range(80)), len(blob) - 1}
    y = np.zeros(1, np.uint32)
    refused = 0
    for n in sorted(lengths):
        try:
            k = cpu.kernel(image=blob[:n], entry="mark", args="u32*")
        except sp.ImageError as error:
            refused += f"image of {n} bytes" in str(error)
            continue
        y[0] = 0
        cpu.default_queue.launch(k, y, groups=1).wait()
        assert y[0] == 7
        k.close()
    assert refused > len(lengths) / 2


def patched(blob, at, layout, value):
    raw = bytearray(blob)
    struct.pack_into(layout, raw, at, value)
    return bytes(raw)


@pytest.mark.parametrize(
    ("at", "layout", "value", "says"),
    [
        (18, "<H", 243, "EM_RISCV"),
        (18, "<H", 40000, "40000"),
        (16, "<H", 2, "ET_EXEC"),
        (16, "<H", 1, "ET_REL"),
        (4, "<B", 1, "image of"),
        (5, "<B", 2, "image of"),
        (32, "<Q", 2**63, "image of"),
        (54, "<H", 7, "image of"),
        (56, "<H", 0, "expected a segment to load"),
        (56, "<H", 60000, "image of"),
    ],
)
def test_foreign_and_damaged_headers(cpu, userlib, at, layout, value, says):
    blob = patched(userlib.mark(1).read_bytes(), at, layout, value)
    with pytest.raises(sp.ImageError, match=says):
        cpu.kernel(image=blob, entry="mark", args="u32*")


def test_damaged_headers_at_random_never_take_the_process_with_them(userlib):
    """In a process of its own: only the headers are damaged, which is what is looked at."""
    code = """
import random, sys
import sparkle_drv as sp
from sparkle_drv.backends.cpu import image
blob = open(sys.argv[1], "rb").read()
rng = random.Random(int(sys.argv[2]))
good = bad = 0
for _ in range(600):
    raw = bytearray(blob)
    for _ in range(rng.randint(1, 3)):
        raw[rng.randrange(64 + 56 * 8)] = rng.randrange(256)
    try:
        with image.loadable("", bytes(raw), "mark"):
            good += 1
    except sp.ImageError:
        bad += 1
print(good, bad)
"""
    seed = random.SystemRandom().randrange(10**6)
    print("seed", seed)
    done = subprocess.run(
        [sys.executable, "-c", code, str(userlib.mark(1)), str(seed)],
        capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    good, bad = map(int, done.stdout.split())
    assert good + bad == 600
    assert bad > 60


def test_loading_leaves_no_descriptor(cpu, userlib):
    before = census()
    for _ in range(20):
        with cpu.kernel(image=userlib.mark(1), entry="mark", args="u32*"):
            pass
        for bad in (b"nonsense", userlib.mark(1).read_bytes()[:5000]):
            with pytest.raises(sp.ImageError):
                cpu.kernel(image=bad, entry="mark", args="u32*")
        with pytest.raises(sp.ImageError):
            cpu.kernel(image=userlib.mark(1), entry="none", args="u32*")
    assert none_left(before, threads=False)


def test_pages_of_an_unloaded_library_are_gone(cpu, userlib):
    def mapped():
        with open("/proc/self/maps") as maps:
            return sum("sparkle-kernel" in line for line in maps)

    before = mapped()
    with cpu.kernel(image=userlib.mark(1), entry="mark", args="u32*"):
        assert mapped() > before
    assert mapped() == before
