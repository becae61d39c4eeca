"""Drivers of every kind under egl: none, old, lesser and failing ones, and other libraries on
the same display.

When this fails, a machine with an old or broken GL driver crashes instead of saying so.

A driver is chosen when a process loads it, so each test runs a Python of its own. Three of them put
a library in front of libEGL.so.1, which hands everything on to the real one. It answers what no
software driver ever would: a reset, an error in a dispatch, a fence that is never reached.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import packages
import pytest


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
    assert said.count("expected an EGL library, got none: libEGL.so.1: ") == 2
    assert "apt-get install libegl1 libgl1-mesa-dri" in said


def test_egl_without_a_driver(tmp_path):
    said = python(OPEN, __EGL_VENDOR_LIBRARY_DIRS=str(tmp_path))
    assert "egl:0: 0 usable device(s)" in said
    assert "apt-get install libegl1 libgl1-mesa-dri" in said


def test_a_gl_that_is_too_old(egl):
    if "Mesa" not in egl.info.driver:
        pytest.skip("only Mesa can be told to be older")
    said = python(OPEN, MESA_GL_VERSION_OVERRIDE="4.2", MESA_GLES_VERSION_OVERRIDE="3.0")
    assert "no OpenGL 4.3 context" in said
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
        ({"MESA_GL_VERSION_OVERRIDE": "4.3", "MESA_EXTENSION_OVERRIDE": NO_STORAGE},
         "glsl 430", "persistent"),
        ({"MESA_GL_VERSION_OVERRIDE": "4.2", "MESA_EXTENSION_OVERRIDE": NO_STORAGE},
         "essl 310", "f64 persistent"),
    ],
    ids=["no buffer storage", "ES without buffer storage"],
)  # fmt: skip
def test_lesser_drivers(egl, env, says, lacks):
    """Buffers that cannot stay mapped, also of OpenGL ES 3.1: the same results by other ways."""
    if "Mesa" not in egl.info.driver:
        pytest.skip("only Mesa can be told to be less")
    said = python(WORK, **env).split("\n")[0]
    assert says in said
    assert not {*lacks.split()} & {*said.split()}


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
    packages.needed("libgl1")
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


def test_beside_moderngl_while_another_thread_launches(egl):
    pytest.importorskip("moderngl")
    packages.needed("libgl1")
    said = python("""
    import threading, moderngl, numpy as np
    import sparkle_drv as sp
    context = moderngl.create_standalone_context(backend="egl")
    shader = context.compute_shader(
        "#version 430\\nlayout(local_size_x=64) in;"
        "layout(std430, binding=0) buffer Y { float y[]; };"
        "void main() { y[gl_GlobalInvocationID.x] += 1.0; }")
    theirs = context.buffer(np.zeros(64, np.float32))
    with sp.open("egl:0") as dev:
        k, y = dev.kernel("saxpy_f32"), dev.array(np.zeros(64, np.float32))
        x = dev.array(np.ones(64, np.float32))
        def ours():
            for i in range(200):
                fence = dev.default_queue.launch(k, y, x, 1.0, 64)
                if i % 10 == 0:
                    fence.wait()
            fence.wait()
        thread = threading.Thread(target=ours)
        thread.start()
        for _ in range(200):
            theirs.bind_to_storage_buffer(0)
            shader.run(1)
        context.finish()
        thread.join()
        assert (np.frombuffer(theirs.read(), np.float32) == 200).all()
        assert (y.numpy() == 200).all()
    print("well")
    """)
    assert said == "well\n"
