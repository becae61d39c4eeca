"""egl:0 as a device: clocks, logs, faults, threads, a lost context, and use beside other libraries.

Two of the tests put a library of their own in front of libEGL.so.1: it hands everything on to the
real one, and answers what no software driver ever would (a reset, an error in a dispatch).
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import sparkle_drv as sp

ADD = b"""\
layout(local_size_x = 64) in;
layout(std430, binding = 0) buffer Y { uint y[]; };
layout(location = 0) uniform uint n;
void main()
{
    uint i = gl_GlobalInvocationID.x;
    if (i < n)
        y[i] += 1u;
}
"""


@pytest.fixture
def egl(opened):
    """egl:0, which must hold nothing more when the test has ended."""
    dev = opened("egl:0")
    before = (dev.default_queue, dev.live_counts())[1]
    yield dev
    assert dev.live_counts() == before


def adder(dev):
    return dev.kernel(image=ADD, entry="main", args="u32* u32")


def python(script, **env):
    """Runs a script in a Python of its own; returns what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env={**os.environ, "LP_NUM_THREADS": "1", **env},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_it_says_what_it_is(egl):
    info = egl.info
    assert (info.backend, info.kind, info.unified) == ("egl", "gpu", False)
    assert info.max_groups >= (65535,) * 3
    assert info.max_group_size >= 128
    assert info.max_shared_nbytes >= 16384
    assert info.offset_alignment & (info.offset_alignment - 1) == 0
    assert info.software == ("llvmpipe" in info.name)
    assert ("cpu" in info.shares) == info.software
    if info.software:  # last, whatever else there is
        order = [i.software for i in sp.devices()]
        assert order == sorted(order)


def test_device_times_are_times_of_this_clock(egl):
    """A timing queue and a timestamp, told as CLOCK_MONOTONIC, lie between looks at that clock."""
    slack = 50_000_000  # how far apart the two clocks' readings may be
    with (
        adder(egl) as k,
        egl.buffer(4000) as y,
        egl.queue(timing=True) as queue,
    ):
        stamps = [egl.timestamp() for _ in range(2)]
        start = time.monotonic_ns()
        commands = sp.Commands().timestamp(stamps[0]).dispatch(k, y, 1000, groups=16)
        fence = queue.submit(commands.timestamp(stamps[1])).wait()
        end = time.monotonic_ns()
        times = egl._backend.times(queue._handle, fence.value)
        assert start - slack < times[0] <= times[1] < end + slack
        assert fence.time_ns == times[1] - times[0]
        assert start - slack < stamps[0].ns <= stamps[1].ns < end + slack
        for stamp in stamps:
            stamp.close()


def test_threads_that_launch_and_load_at_once(egl):
    errors, results = [], {}

    def work(index):
        try:
            with adder(egl) as k, egl.buffer(4 * 500) as y, egl.queue() as queue:
                for _ in range(50):
                    queue.launch(k, y, 500, groups=8)
                queue.fence(queue.submitted).wait()
                results[index] = y.read(np.uint32, 500)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert all((results[i] == 50).all() for i in range(4))


def test_more_launches_than_are_kept_at_once(egl):
    with adder(egl) as k, egl.buffer(4) as y, egl.queue() as queue:
        go = queue.prepare(k, y, 1, groups=1)
        for _ in range(20000):
            last = go()
        queue.fence(last).wait()
        assert y.read(np.uint32, 1)[0] == 20000


def test_copies_and_fills_of_every_shape(egl):
    rng = np.random.default_rng(3)
    image = rng.integers(0, 256, 4096, np.uint8)
    with egl.buffer(4096) as a, egl.buffer(4096, sp.Memory.HOST) as b:
        a.write(image)
        b.write(image)
        commands = sp.Commands()
        for dst, src, n in ((1, 100, 33), (10, 0, 1000), (0, 10, 1000), (5, 5, 7), (2000, 9, 0)):
            commands.copy(a.view(dst, n), a.view(src, n))  # overlapping too
            image[dst : dst + n] = image[src : src + n].copy()
        for at, n, width in ((3, 8, 4), (6, 8, 2), (7, 5, 1), (64, 400, 4), (600, 0, 4)):
            commands.fill(a.view(at, n), 0xC1C2C3C4 % (1 << 8 * width), width)
            image[at : at + n] = np.tile(
                np.frombuffer((0xC1C2C3C4 % (1 << 8 * width)).to_bytes(width, "little"), np.uint8),
                n // width,
            )
        commands.copy(b, a)
        egl.default_queue.submit(commands).wait()
        assert (b.read(np.uint8, 4096) == image).all()
        with b.map() as view:
            assert bytes(view) == image.tobytes()


def test_memory_from_the_pool_is_zero(egl):
    for memory in (sp.Memory.DEVICE, sp.Memory.HOST):
        for nbytes in (1, 255, 4096, 70001, 1 << 20):
            for _ in range(2):
                with egl.buffer(nbytes, memory) as buffer:
                    assert not buffer.read(np.uint8, nbytes).any()
                    buffer.write(np.full(nbytes, 0xEE, np.uint8))


def test_spirv_is_opt_in_and_runs(egl):
    def op(code, *operands):
        return [(len(operands) + 1) << 16 | code, *operands]

    main = struct.unpack("<2I", b"main\0\0\0\0")
    words = [0x07230203, 0x00010000, 0, 10, 0, *op(17, 1), *op(14, 0, 1), *op(15, 5, 4, *main)]
    words += [*op(16, 4, 17, 8, 1, 1), *op(19, 2), *op(33, 3, 2), *op(54, 2, 4, 0, 3)]
    words += [*op(248, 5), *op(253), *op(56)]
    image = struct.pack(f"<{len(words)}I", *words)
    with pytest.raises(sp.ImageError, match="allow_spirv=True"):
        egl.kernel(image=image, entry="main", args="u32")
    if "spirv" not in egl.info.features:
        pytest.skip("this driver takes no SPIR-V")
    with egl.kernel(image=image, entry="main", args="u32", allow_spirv=True) as k:
        assert k.group_size == (8, 1, 1)
        egl.default_queue.launch(k, 5, groups=2).wait()
    with pytest.raises(sp.ImageError, match="no compute entry point"):
        egl.kernel(image=image, entry="other", args="u32", allow_spirv=True)
    with pytest.raises(sp.ImageError, match="truncated"):
        egl.kernel(image=image[:-4], entry="main", args="u32", allow_spirv=True)


# Other drivers, or none

OPEN = """
    import sparkle_drv as sp
    try:
        sp.open("egl:0")
    except sp.DeviceNotFound as error:
        print(error)
    for found in sp.discover():
        if found.backend == "egl":
            assert not found.usable
            print(found.reason, found.advice, *found.tried)
"""


def test_no_egl_at_all(tmp_path):
    for name in ("libEGL.so.1", "libEGL.so"):
        (tmp_path / name).write_bytes(b"")
    said = python(OPEN, LD_LIBRARY_PATH=str(tmp_path))
    assert said.count("no EGL library: libEGL.so.1: ") == 2
    assert "apt-get install libegl1 libgl1-mesa-dri" in said


def test_egl_without_a_driver(tmp_path):
    said = python(OPEN, __EGL_VENDOR_LIBRARY_DIRS=str(tmp_path))
    assert "egl:0: 0 usable device(s)" in said
    assert "apt-get install libegl1 libgl1-mesa-dri" in said


def test_a_gl_that_is_too_old():
    said = python(OPEN, MESA_GL_VERSION_OVERRIDE="4.2", MESA_GLES_VERSION_OVERRIDE="3.0")
    if "no OpenGL 4.3 context" not in said:
        pytest.skip("only Mesa can be told to be older")
    assert "no OpenGL ES 3.1 context" in said


WORK = """
    import numpy as np
    import sparkle_drv as sp
    from sparkle_drv.testing import suite
    with sp.open("egl:0") as dev:
        print(dev.info.isa, *dev.info.features)
        for check in suite.checks(["memory", "launch", "lists", "patch"]):
            try:
                suite.judge(check, dev)
            except suite.NotProvided:
                pass
        k = dev.kernel("saxpy_f32")
        x, y = dev.array(np.ones(300, np.float32)), dev.array(np.ones(300, np.float32))
        with y.buffer.map() as view:
            view[:4] = np.float32(7).tobytes()
            dev.default_queue.launch(k, y, x, 2.0, 300).wait()
            assert np.frombuffer(view, np.float32)[:2].tolist() == [9, 3]
            view[4:8] = np.float32(1).tobytes()
            dev.default_queue.launch(k, y, x, 2.0, 300).wait()
        assert y.numpy()[:3].tolist() == [11, 3, 5]
"""
NO_STORAGE = "-GL_ARB_buffer_storage -GL_EXT_buffer_storage"


@pytest.mark.parametrize(
    ("env", "says", "lacks"),
    [
        ({"MESA_GL_VERSION_OVERRIDE": "4.2"}, "essl 310", "f64"),
        ({"MESA_GL_VERSION_OVERRIDE": "4.3", "MESA_EXTENSION_OVERRIDE": NO_STORAGE},
         "glsl 430", "persistent"),
        ({"MESA_GL_VERSION_OVERRIDE": "4.2", "MESA_EXTENSION_OVERRIDE": NO_STORAGE},
         "essl 310", "persistent"),
    ],
    ids=["ES", "no buffer storage", "ES without buffer storage"],
)  # fmt: skip
def test_lesser_drivers(egl, env, says, lacks):
    """OpenGL ES 3.1, and buffers that cannot stay mapped: the same results by other ways."""
    if "Mesa" not in egl.info.driver:
        pytest.skip("only Mesa can be told to be less")
    said = python(WORK, **env).split("\n")[0]
    assert says in said
    assert lacks not in said.split()


# A library in front of libEGL.so.1

FRONT = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
typedef void (*fn)(void);
static fn (*real_lookup)(const char *);
static void *real(const char *name)
{
    static void *library;
    if (!library)
        library = dlopen(REAL, RTLD_NOW);
    return dlsym(library, name);
}
static int asked(const char *what)
{
    char path[500];
    snprintf(path, sizeof path, "%s/%s", getenv("FRONT_HOME"), what);
    return access(path, F_OK) == 0;
}
static uint32_t reset_status(void) { return asked("lose") ? 0x8253 : 0; }
static void dispatch(uint32_t x, uint32_t y, uint32_t z)
{
    ((void (*)(uint32_t, uint32_t, uint32_t))real_lookup("glDispatchCompute"))(
        asked("fail") ? 0x7fffffff : x, y, z);
}
static uint32_t wait_sync(void *sync, uint32_t flags, uint64_t ns)
{
    if (asked("hang"))
        return 0x911B; /* GL_TIMEOUT_EXPIRED */
    return ((uint32_t(*)(void *, uint32_t, uint64_t))real_lookup("glClientWaitSync"))(
        sync, flags, ns);
}
fn eglGetProcAddress(const char *name)
{
    if (!real_lookup)
        real_lookup = (fn(*)(const char *))real("eglGetProcAddress");
    if (!strcmp(name, "glGetGraphicsResetStatus") || !strcmp(name, "glGetGraphicsResetStatusEXT"))
        return (fn)reset_status;
    if (!strcmp(name, "glDispatchCompute"))
        return (fn)dispatch;
    if (!strcmp(name, "glClientWaitSync"))
        return (fn)wait_sync;
    return real_lookup(name);
}
#define ON(result, name, parameters, arguments)                                                    \
    result name parameters { return ((result(*) parameters)real(#name)) arguments; }
ON(const char *, eglQueryString, (void *d, int n), (d, n))
ON(int, eglGetError, (void), ())
ON(int, eglInitialize, (void *d, int *a, int *b), (d, a, b))
ON(int, eglBindAPI, (unsigned a), (a))
ON(void *, eglCreateContext, (void *d, void *c, void *s, const int *a), (d, c, s, a))
ON(int, eglDestroyContext, (void *d, void *c), (d, c))
ON(int, eglMakeCurrent, (void *d, void *a, void *b, void *c), (d, a, b, c))
ON(int, eglReleaseThread, (void), ())
"""
PREPARED = """
    import os, pathlib, time
    import numpy as np
    import sparkle_drv as sp
    home = pathlib.Path(os.environ["FRONT_HOME"])
    dev = sp.open("egl:0")
    k, y, queue = dev.kernel("fill_f32"), dev.buffer(400), dev.queue()
    queue.launch(k, y, 1.0, 100).wait()
    def raised(kind, call):
        try:
            call()
        except kind as error:
            print(type(error).__name__, error)
        else:
            raise SystemExit(f"{kind.__name__} was wanted")
"""


@pytest.fixture
def front(egl, tmp_path):
    """front(script) runs a script with the library above in place of libEGL.so.1."""
    with open("/proc/self/maps") as maps:
        found = {line.split()[-1] for line in maps if "/libEGL.so.1" in line}
    (tmp_path / "front.c").write_text(FRONT)
    compiler = [*os.environ.get("CC", "gcc").split(), "-shared", "-fPIC", "-w"]
    subprocess.run(
        [*compiler, f'-DREAL="{found.pop()}"', "-o", tmp_path / "libEGL.so.1",
         tmp_path / "front.c", "-ldl"],
        check=True,
    )  # fmt: skip
    env = {"LD_LIBRARY_PATH": str(tmp_path), "FRONT_HOME": str(tmp_path)}
    return lambda script: python(PREPARED + script, **env)


def test_a_lost_context_is_a_lost_device(front):
    said = front("""
    if "reset" not in dev.info.features:
        raise SystemExit(0)
    home.joinpath("hang").touch()
    stuck = queue.launch(k, y, 2.0, 100)
    home.joinpath("lose").touch()
    raised(sp.DeviceLost, lambda: stuck.wait(20))
    raised(sp.DeviceLost, lambda: queue.launch(k, y, 3.0, 100))
    raised(sp.DeviceLost, lambda: queue.submit(sp.Commands()))
    raised(sp.DeviceLost, lambda: y.write(np.zeros(100, np.float32)))
    raised(sp.DeviceLost, lambda: dev.buffer(4))
    raised(sp.DeviceLost, lambda: dev.queue())
    raised(sp.DeviceLost, lambda: dev.kernel("noop"))
    start = time.monotonic()
    dev.close(timeout_s=5)
    print("closed" if time.monotonic() - start < 5 else "late")
    """)
    assert said.count("DeviceLost") == 7
    assert said.endswith("closed\n")


def test_a_stuck_device_times_out_tells_and_is_left_behind(front):
    said = front("""
    home.joinpath("hang").touch()
    stuck = queue.launch(k, y, 2.0, 100)
    raised(sp.FenceTimeout, lambda: stuck.wait(0.2))
    raised(sp.FenceTimeout, lambda: dev.close(timeout_s=0.2))
    home.joinpath("hang").unlink()
    stuck.wait()
    dev.close()
    """)
    assert said.count("FenceTimeout") == 2
    assert "dispatch fill_f32(" in said


def test_an_error_of_the_driver_is_a_fault_with_its_words(front):
    said = front("""
    import logging
    line = "logged %(name)s %(levelname)s %(message)s"
    logging.basicConfig(format=line, stream=__import__("sys").stdout)
    good = queue.launch(k, y, 1.0, 100)
    good.wait()
    home.joinpath("fail").touch()
    bad = queue.launch(k, y, 2.0, 100)
    raised(sp.KernelFault, bad.wait)
    home.joinpath("fail").unlink()
    good.wait()
    queue.launch(k, y, 3.0, 100).wait()
    print(y.read(np.float32, 100).tolist() == [3.0] * 100)
    dev.close()
    """)
    assert "KernelFault egl:0: submission 3 failed with EIO: GL_INVALID_VALUE" in said
    assert "logged sparkle_drv.egl ERROR egl:0: error: GL_INVALID_VALUE" in said
    assert said.endswith("True\n")


def test_beside_moderngl_in_one_process(egl):
    pytest.importorskip("moderngl")
    said = python("""
    import moderngl, numpy as np
    import sparkle_drv as sp
    def theirs():
        shader = context.compute_shader(
            "#version 430\\nlayout(local_size_x=64) in;"
            "layout(std430, binding=0) buffer Y { float y[]; };"
            "void main() { y[gl_GlobalInvocationID.x] += 1.0; }")
        buffer = context.buffer(np.zeros(64, np.float32))
        buffer.bind_to_storage_buffer(0)
        shader.run(1)
        return np.frombuffer(buffer.read(), np.float32)
    context = moderngl.create_standalone_context(backend="egl")
    assert (theirs() == 1).all()
    for _ in range(2):
        with sp.open("egl:0") as dev:
            with dev.kernel("fill_f32") as k, dev.buffer(256) as y:
                dev.default_queue.launch(k, y, 5.0, 64).wait()
                assert (theirs() == 1).all()
                assert (y.read(np.float32, 64) == 5).all()
        assert (theirs() == 1).all()
    print("well")
    """)
    assert said == "well\n"
