"""User shaders on egl:0: what loads, and what is wrong in the words of the driver or of ours,
before anything is submitted.

When this fails, a user's shader loads wrongly, or its error names no line.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv import _hot
from sparkle_drv.backends.base import Settings
from sparkle_drv.backends.egl.cache import ProgramCache

SCALE = """\
layout(local_size_x = 64) in;
layout(std430, binding = 0) buffer Y { float y[]; };
layout(std430, binding = 1) readonly buffer X { float x[]; };
layout(location = 0) uniform float a;
layout(location = 1) uniform uint n;
void main()
{
    uint i = gl_GlobalInvocationID.x;
    if (i < n)
        y[i] = a * x[i];
}
"""
ARGS = "f32* f32* f32 u32"
# Group i adds one to element i; works with any number of groups.
COUNT = """\
layout(local_size_x = 1) in;
layout(std430, binding = 0) buffer Y { uint y[]; };
uniform uvec3 sp_group_offset;
void main()
{
    uvec3 g = gl_WorkGroupID + sp_group_offset;
    atomicAdd(y[g.x], 1u + g.y);
}
"""


def load(dev, text, args=ARGS, **more):
    return dev.kernel(image=text.encode(), entry="main", args=args, **more)


def test_a_byte_order_mark_is_no_part_of_a_shader(egl):
    for head in ("", "#version 430\n"):
        image = b"\xef\xbb\xbf" + (head + SCALE).encode()
        egl.kernel(image=image, entry="main", args=ARGS).close()


def test_a_shader_from_a_file_and_from_bytes(egl, tmp_path):
    path = tmp_path / "scale.comp"
    path.write_text(SCALE)
    x = np.arange(100, dtype=np.float32)
    for image in (path, str(path), SCALE.encode(), b"#version 430\n" + SCALE.encode()):
        if isinstance(image, bytes) and image[:1] == b"#" and egl.info.isa != "glsl 430":
            continue
        with (
            egl.kernel(image=image, entry="main", args=ARGS) as k,
            egl.array(x) as a,
            egl.empty(100, np.float32) as y,
        ):
            assert k.group_size == (64, 1, 1)
            assert k.form == "grid"
            egl.default_queue.launch(k, y, a, 3.0, 100, groups=2).wait()
            assert (y.numpy() == 3 * x).all()


@pytest.mark.parametrize("version", ["", "#version 430\n", "#version 310 es\n"])
def test_a_shader_that_does_not_compile_names_its_line(egl, version):
    if version and version.split()[-1] != ("es" if egl.info.isa == "essl 310" else "430"):
        pytest.skip(f"{egl.info.isa} here")
    text = version + SCALE.replace("a * x[i]", "a * nothing[i]")
    line = text.split("\n").index("        y[i] = a * nothing[i];") + 1
    with pytest.raises(sp.ImageError, match="nothing") as error:
        load(egl, text)
    assert f"{line} |         y[i] = a * nothing[i];" in str(error.value)


@pytest.mark.parametrize(
    ("text", "args", "says"),
    [
        (SCALE, "f32* f32* u32 u32", "uniform a .location 0. is float, the argument is uint"),
        (SCALE, "f32* f32* f32 f32", "uniform n .location 1. is uint, the argument is float"),
        (SCALE, "f32* f32* f32", "uniform n is at location 1, but the arguments have 1 scalar"),
        (SCALE, "f32* f32 u32", "block X is at binding 1, but the arguments have 1 pointer"),
        (SCALE, "f32* f32* f64 u32", "uniform a .location 0. is float, the argument is double"),
        (SCALE, "f32* f32* u64 u32", "the argument is uint64_t or uvec2"),
        (SCALE, "f32* f32* f16 u32", "expected scalars of 32 or 64 bits, got f16"),
    ],
)
def test_a_shader_that_does_not_fit_its_arguments(egl, text, args, says):
    with pytest.raises(sp.ImageError, match=says):
        load(egl, text, args)


@pytest.mark.parametrize(
    ("declared", "used"),
    [
        ("layout(std140, binding = 0) uniform Block { float b; };", "b"),
        ("layout(binding = 0) uniform atomic_uint c;", "float(atomicCounterIncrement(c))"),
    ],
)
def test_what_no_argument_can_fill_is_refused(egl, declared, used):
    text = SCALE.replace("void main()", f"{declared}\nvoid main()").replace(
        "x[i];\n}", f"{used};\n}}"
    )
    with pytest.raises(sp.ImageError, match="uniform block or is an atomic counter"):
        load(egl, text)


@pytest.mark.parametrize(
    ("image", "entry", "says"),
    [
        (b"", "main", "expected GLSL"),
        (b" \n", "main", "expected GLSL"),
        (b"\xff\xfe\xfd", "main", "expected GLSL"),
        (b"void main() {}\0", "main", "expected GLSL"),
        (SCALE.encode(), "scale", "expected the entry 'main'"),
        (b"void nothing() {}", "main", "main"),
    ],
)
def test_what_is_no_shader(egl, image, entry, says):
    with pytest.raises(sp.ImageError, match=says):
        egl.kernel(image=image, entry=entry, args=ARGS)


def test_more_shared_memory_than_there_is(egl):
    words = egl.info.max_shared_nbytes // 4 + 1
    text = SCALE.replace("void main()\n{", f"shared float s[{words}];\nvoid main()\n{{") + ""
    text = text.replace("y[i] = a * x[i]", "{ s[i] = a * x[i]; barrier(); y[i] = s[i + 1u]; }")
    with pytest.raises(sp.ImageError, match="shared"):
        load(egl, text.replace("if (i < n)\n", ""))


def test_larger_groups_than_there_can_be(egl):
    with pytest.raises(sp.ImageError, match=r"local_size|group"):
        load(egl, SCALE.replace("64", str(egl.info.max_group_size + 1)))


def blocks(count):
    lines = [f"layout(std430, binding = {i}) buffer B{i} {{ uint b{i}[]; }};" for i in range(count)]
    sums = "".join(f"    b0[0] += b{i}[1];\n" for i in range(1, count))
    return "layout(local_size_x = 1) in;\n" + "\n".join(lines) + f"\nvoid main()\n{{\n{sums}}}\n"


def test_many_buffers_and_too_many(egl):
    words = ""
    for count in range(8, 49):
        try:
            load(egl, blocks(count), "u32* " * count).close()
        except sp.ImageError as error:
            words = str(error)
            break
    assert re.search("storage|binding", words), "no limit was met, or nothing said of it"


def test_launch_shapes_that_the_shader_does_not_have(egl):
    with load(egl, SCALE) as k, egl.buffer(256) as y, egl.buffer(256) as x:
        launch = egl.default_queue.launch
        before = egl.default_queue.submitted
        with pytest.raises(ValueError, match=r"expected \(64, 1, 1\), which"):
            launch(k, y, x, 1.0, 64, groups=1, group_size=32)
        with pytest.raises(ValueError, match="expected 0, since a shader declares"):
            launch(k, y, x, 1.0, 64, groups=1, shared=4)
        with pytest.raises(ValueError, match="groups"):
            launch(k, y, x, 1.0, 64, groups=egl.info.max_groups[0] + 1)
        with pytest.raises(ValueError, match="groups"):
            launch(k, y, x, 1.0, 64, groups=(2**32 - 1,) * 3)
        assert egl.default_queue.submitted == before
        with pytest.raises(ValueError, match="groups"):
            egl.default_queue.prepare(k, y, x, 1.0, 64, groups=egl.info.max_groups[0] + 1)


def test_a_grid_beyond_the_limit_is_split(egl):
    n = egl.info.max_groups[0] + 1000
    if n > 10**6:
        pytest.skip(f"{egl.info.uri} takes {n} groups at once")
    with load(egl, COUNT, "u32*") as k, egl.buffer(4 * n) as y:
        assert k.resources.max_groups == (2**32 - 1,) * 3
        egl.default_queue.launch(k, y, groups=(n, 2)).wait()
        assert (y.read(np.uint32, n) == 3).all()
        with pytest.raises(ValueError, match="too many to be split"):
            egl.default_queue.launch(k, y, groups=(2**32 - 1, 2**30, 1))


def test_a_buffer_beyond_a_pointer_s_reach_is_refused(egl):
    """By its length, though the grid must be split too."""
    most = egl.info.max_pointer_nbytes
    if most > 1 << 28:
        pytest.skip(f"{egl.info.uri} reaches {most} bytes")
    with load(egl, COUNT, "u32*") as k, egl.buffer(most + 4) as y:
        groups = (egl.info.max_groups[0] + 1, 1)
        with pytest.raises(ValueError, match=f"longer than the {most} bytes that one pointer can"):
            egl.default_queue.launch(k, y, groups=groups)
        egl.default_queue.prepare(k, y.view(0, most), groups=groups)


def test_views_that_cannot_be_bound_are_refused(egl):
    step = egl.info.offset_alignment
    with load(egl, SCALE) as k, egl.buffer(4096) as y, egl.array(np.ones(64, np.float32)) as x:
        egl.default_queue.launch(k, y.view(step), x, 2.0, 64, groups=1).wait()
        assert (y.read(np.float32, 64, offset=step) == 2).all()
        assert not y.read(np.uint8, step).any()
        if step > 4:
            with pytest.raises(ValueError, match=f"multiples of {step} bytes"):
                egl.default_queue.launch(k, y.view(4), x, 2.0, 64, groups=1)


def test_a_view_bounds_what_a_shader_reaches(egl):
    text = SCALE.replace("if (i < n)\n        y[i] = a * x[i]", "y[i] = float(x.length())")
    text = text.replace("uniform float a", "uniform float b").replace(
        "uniform uint n", "uniform uint m"
    )
    with load(egl, text) as k, egl.buffer(4 * 64) as y, egl.buffer(400) as x:
        egl.default_queue.launch(k, y, x.view(0, 40), 0.0, 0, groups=1).wait()
        assert (y.read(np.float32, 64) == 10).all()


def test_pointers_that_are_no_buffers_of_ours_are_refused_in_native_code(egl):
    from sparkle_drv.core.abi import records

    with load(egl, SCALE) as k, egl.buffer(256) as y, egl.buffer(256) as x:
        good = _hot.pack(egl, k, (y, x, 1.0, 64), 1, None, 0)
        check = egl._backend.check
        assert check(good, len(good)) == 0
        at = records.DISPATCH_HEAD.size
        for address in (1, 1 << 61, y.address + (1 << 40) * 1000, y.address + 300):
            bad = good[:at] + address.to_bytes(8, "little") + good[at + 8 :]
            assert check(bad, len(bad)) < 0
        host = records.copy(y.address, id(good), 8)
        assert check(host, len(host)) < 0


def test_64_bit_scalars_as_pairs_of_words(egl):
    text = """\
layout(local_size_x = 1) in;
layout(std430, binding = 0) buffer Y { uvec2 y[]; };
layout(location = 0) uniform uvec2 a;
layout(location = 1) uniform uvec2 b;
void main() { y[0] = a; y[1] = b; }
"""
    with load(egl, text, "u64* u64 i64") as k, egl.buffer(16) as y:
        egl.default_queue.launch(k, y, 2**63 + 5, -7, groups=1).wait()
        assert list(y.read(np.int64, 2)) == [5 - 2**63, -7]


def files(home):
    return sorted((home / "egl" / "programs").glob("*.bin"))


def run_once(uri):
    with (
        sp.open(uri) as dev,
        load(dev, SCALE) as k,
        dev.array(np.ones(8, np.float32)) as x,
        dev.empty(8, np.float32) as y,
    ):
        dev.default_queue.launch(k, y, x, 4.0, 8, groups=1).wait()
        assert (y.numpy() == 4).all()


def test_programs_are_kept_on_disk_and_damaged_ones_are_not_used(egl, tmp_path, monkeypatch):
    if "binaries" not in egl.info.features:
        pytest.skip("this driver gives out no programs")
    monkeypatch.setenv("SPARKLE_HOME", str(tmp_path))
    run_once(egl.uri)
    (kept,) = files(tmp_path)
    whole = kept.read_bytes()
    stamp = kept.stat().st_mtime_ns
    run_once(egl.uri)
    assert kept.stat().st_mtime_ns == stamp, "it was compiled and stored again"
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 0x40
    for damaged in (b"", whole[:10], whole[:-1], bytes(flipped), b"x" * len(whole)):
        kept.write_bytes(damaged)
        run_once(egl.uri)
        assert len(kept.read_bytes()) == len(whole), "it was not mended"
    # Undamaged, but none of the driver's: it is refused there, and forgotten here.
    cache = ProgramCache(str(tmp_path), ("x",))
    cache.put(kept, 0x1234, b"not a program")
    run_once(egl.uri)
    assert files(tmp_path) == [kept]
    assert len(kept.read_bytes()) == len(whole)


def test_a_home_that_cannot_be_written_costs_the_cache_only(egl, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("SPARKLE_HOME", str(tmp_path / "file"))
    run_once(egl.uri)


def test_opening_what_is_not_there(egl):
    with pytest.raises(sp.DeviceNotFound, match=r"egl:9: \d+ usable device"):
        sp.open("egl:9")
    with pytest.raises(sp.DeviceNotFound, match="expected 'egl:0'"):
        sp.open("egl:first")
    assert any(info.uri == "egl:0" for info in sp.devices())


def test_settings_name_where_programs_are_kept(tmp_path):
    assert ProgramCache(Settings(str(tmp_path)).home, ()).folder == tmp_path / "egl" / "programs"
