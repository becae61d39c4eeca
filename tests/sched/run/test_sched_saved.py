"""Where a trace is saved to: files, links to files, and things that are no file.

When this fails, saving a trace overwrites something else, or loses the trace.
"""

import os
import stat
import threading

import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv.errors import DeviceLost


@pytest.fixture(scope="module")
def ctx():
    with sp.init(["cpu"], profile=False) as made:
        yield made


def test_a_file_has_the_mode_that_the_umask_says(ctx, tmp_path):
    for umask in (0o022, 0o077):
        before = os.umask(umask)
        try:
            ctx.save_trace(tmp_path / "t.json")
        finally:
            os.umask(before)
        for name in ("t.json", "t.json.journal"):
            assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o666 & ~umask
    assert sorted(x.name for x in tmp_path.iterdir()) == ["t.json", "t.json.journal"]


def test_a_link_is_followed(ctx, tmp_path):
    (tmp_path / "there").mkdir()
    link, target = tmp_path / "t.json", tmp_path / "there" / "real.json"
    link.symlink_to("there/real.json")
    for _ in range(2):
        ctx.save_trace(link)
        assert link.is_symlink()
        assert target.read_bytes().startswith(b'{"traceEvents"')


def test_what_is_no_file_is_written_through(ctx, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="pipe"):  # nobody reads
        ctx.save_trace(pipe)
    got = []
    fd = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(fd, True)

    def read():
        with os.fdopen(fd, "rb") as file:
            got.append(file.read())

    reader = threading.Thread(target=read, daemon=True)
    writer = threading.Thread(target=ctx.save_trace, args=(pipe,), daemon=True)
    writer.start()
    writer.join(10)
    reader.start()
    reader.join(10)
    assert got[0].startswith(b'{"traceEvents"')
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert [x.name for x in tmp_path.iterdir()] == ["pipe"]


def test_names_that_are_none(ctx, tmp_path):
    with pytest.raises(FileNotFoundError, match="expected the name of a file"):
        ctx.save_trace("")
    with pytest.raises(IsADirectoryError):
        ctx.save_trace(tmp_path)
    with pytest.raises(TypeError):
        ctx.save_trace(5)
    with pytest.raises(FileNotFoundError, match=r"/nowhere/t\.json'$"):
        ctx.save_trace(tmp_path / "nowhere" / "t.json")


def test_a_trace_without_a_with(tmp_path):
    a = np.ones((8, 8), np.float32)
    with sp.init(["cpu"], profile=False) as ctx:
        begun = ctx.trace_begin("a")
        ctx.gemm(a, a)
        for record in (lambda: ctx.trace_begin("b"), ctx.trace("b").__enter__):
            with pytest.raises(ValueError, match="trace: expected no trace in progress, got 'a'"):
                record()
        ctx.trace_end()
        assert begun.name == "a"
        assert begun.end_ns > begun.begin_ns
        with ctx.trace("a") as within:
            ctx.gemm(a, a)
            with pytest.raises(ValueError, match="expected a trace begun by trace_begin"):
                ctx.trace_end()
        assert [(s.track, s.name) for s in begun.spans] == [(s.track, s.name) for s in within.spans]
        ctx.trace_begin("c")
        ctx.trace_end()
        ctx.save_trace(tmp_path / "t.json")
        assert [plan.device for plan in sp.replay(tmp_path / "t.json")] == ["cpu", "cpu"]
        with pytest.raises(TypeError, match="name: "):
            ctx.trace_begin(3)
        with pytest.raises(ValueError, match="got none"):
            ctx.trace_end()


def test_a_context_closed_before_its_trace_ends(tmp_path):
    ctx = sp.init(["cpu"], profile=False)
    ctx.trace_begin("a")
    ctx.close()
    with pytest.raises(DeviceLost, match="cpu: the Context is closed"):
        ctx.trace_end()
    with pytest.raises(DeviceLost, match="cpu: the Context is closed"):
        ctx.trace_begin("b")
    ctx.save_trace(tmp_path / "t.json")
    assert '"a"' in (tmp_path / "t.json").read_text()
