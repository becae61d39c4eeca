"""The recorder writes down launches on emulated cards, and a replay names the first difference.

When this fails, a recording of a real card is incomplete, or its replay reports the wrong
difference.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import random
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from census import census, none_left
from sparkle_drv._native import ffi, lib
from where import kits

import sparkle_drv as sp
from sparkle_drv import lowlevel
from sparkle_drv.lowlevel import RecordingError, read_recording, recorded
from sparkle_drv.testing.emulator import IP, BufferObject, EmulatedGpu, Machine

ENDLESS = 60


def launches(uri, values=(1.5, 2.5)):
    """A few launches; what the last one wrote."""
    with sp.open(uri) as dev, dev.kernel("fill_f32") as kernel, dev.buffer(400) as y:
        with dev.queue(timing=True) as queue:
            for value in values:
                fence = queue.launch(kernel, y, value, 100, groups=(7, 1, 1))
            fence.wait()
        return y.read("f4", 100).tolist()


@pytest.fixture(scope="module", params=["gfx1036", "gfx1100"])
def own(request, tmp_path_factory):
    """(chip, path) of a recording of our own launches."""
    path = tmp_path_factory.mktemp("own") / "own.rec"
    with recorded(path):
        launches(f"emu:{request.param}")
    return request.param, path


def again(path, uri):
    from _bringup.ladder.recording import replay

    return replay(path, uri)


def planted(own, tmp_path, pattern, put):
    """The recording with one change."""
    text, count = re.subn(pattern, put, own[1].read_text(), count=1, flags=re.M)
    assert count == 1
    path = tmp_path / "planted.rec"
    path.write_text(text)
    return again(path, f"emu:{own[0]}")


def test_a_replay_on_a_fresh_machine_is_the_same(own):
    from _bringup.ladder.recording import report

    outcome = again(own[1], f"emu:{own[0]}")
    assert (outcome.difference, outcome.nodes) == ("", 1)
    assert outcome.jobs in (2, 3)  # where memory is on the card, a copy reads it
    assert not outcome.skipped
    assert report(outcome)[-1] == "as recorded"


def test_another_chip_is_told_by_the_first_answer_that_differs(own):
    other = {"gfx1036": "gfx1100", "gfx1100": "gfx1036"}[own[0]]
    outcome = again(own[1], f"emu:{other}")
    assert re.match(
        r"ioctl \d+ AMDGPU_INFO \(line \d+\) \(query 0x16\): byte 0", outcome.difference
    )


FILLED = r"^(gpu node=1 bo=\d+ at=0 (?:0000c03f){2})0000c03f"


def test_a_result_that_differs_is_named_by_job_buffer_and_byte(own, tmp_path):
    outcome = planted(own, tmp_path, FILLED, r"\g<1>0000c13f")
    assert re.match(
        r"ioctl \d+ AMDGPU_CS \(line \d+\): the memory differs after this job: BO \d+ byte 0x8: "
        r"expected 0000c13f ",
        outcome.difference,
    )


def test_an_input_that_differs_makes_the_result_differ(own, tmp_path):
    """The number of the first fill in the arguments: 1.5 becomes 1.75 before anything runs."""
    outcome = planted(own, tmp_path, r"^(cpu node=1 .*)0000c03f64000000", r"\g<1>0000e03f64000000")
    assert "after this job: BO" in outcome.difference
    assert "0000e03f" in outcome.difference.partition("recorded, ")[2]


def test_a_call_that_ends_otherwise_is_named(own, tmp_path):
    outcome = planted(own, tmp_path, r"(request=c0186444 AMDGPU_CS) rc=0", r"\1 rc=-12")
    assert "AMDGPU_CS" in outcome.difference
    assert outcome.difference.endswith("expected -12 (ENOMEM) as recorded, got 0")


def test_a_job_that_hangs_in_the_replay_is_named(own):
    with Machine([own[0]], job_limit_s=0.2) as machine:
        machine.hang_next_job()

        def open_node(_):
            node = machine.open()
            fd, node.fd = node.fd, -1
            return machine.ops, fd

        outcome = lowlevel.replay(own[1].read_text(), open_node)
    assert re.search(
        r"AMDGPU_CS \(line \d+\): expected its job to end without error, "
        r"but it ends with -\d+ \(E\w+\)$",
        outcome.difference,
    )


def open_on(machine):
    """For `replay`: card 0 of a machine."""

    def open_node(node):
        opened = machine.open()
        fd, opened.fd = opened.fd, -1
        return machine.ops, fd

    return open_node


def test_a_damaged_recording_hurts_nobody(own):
    """Lines that are well-formed and do not fit one another: seeded, those of a fuzzer in small. A
    size that is not the request's, and two arrays at one address, once wrote over freed memory."""
    lines = own[1].read_text().split("\n")
    ours = [i for i, line in enumerate(lines) if line.startswith((" in", " at", "ioctl", "node"))]
    for seed in range(24):
        rng, damaged = random.Random(seed), list(lines)
        at = rng.choice(ours)
        match seed % 3:
            case 0:
                del damaged[at]
            case 1:
                damaged[at] = damaged[at][: rng.randrange(4, 5 + len(damaged[at]))]
            case _:
                words = list(damaged[at])
                for i in rng.sample(range(4, len(words)), 4):
                    words[i] = rng.choice("08") if words[i] in "0123456789abcdef" else words[i]
                damaged[at] = "".join(words)
        with Machine([own[0]], job_limit_s=0.2) as machine, contextlib.suppress(RecordingError):
            lowlevel.replay("\n".join(damaged), open_on(machine), job_limit_s=0.5)


def test_a_wait_that_failed_is_not_waited_for(own):
    """Its end is a time of another machine's clock: days from now on this one."""
    text, count = re.subn(
        r"(ioctl \d+ node=1 request=\w+ AMDGPU_GEM_CREATE rc=0\n)",
        "ioctl 9 node=1 request=c02864c3 SYNCOBJ_WAIT rc=-62\n"
        f" in {'00' * 8}{'ff' * 7}7f{'00' * 24}\n" + r"\1",
        own[1].read_text(), count=1,
    )  # fmt: skip
    assert count == 1
    start = time.monotonic()
    with Machine([own[0]]) as machine:
        assert lowlevel.replay(text, open_on(machine)).same
    assert time.monotonic() - start < 60


def test_nothing_is_left_of_a_replay(own):
    with Machine([own[0]]) as machine:

        def open_node(_):
            node = machine.open()
            fd, node.fd = node.fd, -1
            return machine.ops, fd

        before = census()
        lowlevel.replay(own[1].read_text(), open_node)
        assert none_left(before, threads=False)
        assert not any(machine.live_counts().values())


def test_a_recording_is_read_as_a_capture(own):
    text = own[1].read_text()
    ibs = lowlevel.read_ibs(text)
    assert len(ibs) in (2, 3)
    assert all(ib.complete and len(ib.dwords) % 8 == 0 for ib in ibs)
    calls = [e for e in read_recording(text) if getattr(e, "name", "") == "AMDGPU_CS"]
    assert [ib for call in calls for ib in call.ibs] == ibs
    assert lowlevel.diff(ibs[:1], lowlevel.parse(lowlevel.text(ibs[:1])), []) == []


def test_what_is_recorded_is_what_is_not(tmp_path):
    bare = launches("emu:gfx1100")
    with recorded(tmp_path / "a.rec"):
        assert launches("emu:gfx1100") == bare == [2.5] * 100


def test_a_damaged_recording_says_where(own, tmp_path):
    text = own[1].read_text()
    whole = list(read_recording(text))
    torn = list(read_recording(text + "ioctl 99 node=1 requ"))  # the program died here
    assert len(torn) == len(whole)
    for bad, line in (("", 1), ("PM4\n", 1), (text + "what is this\n", text.count("\n") + 1)):
        with pytest.raises(RecordingError, match=f"^line {line}: "):
            list(read_recording(bad))


@pytest.mark.parametrize("path", ["/proc/no/such", "/nonexistent/a.rec"])
def test_a_file_that_cannot_be_written_is_an_error_at_once(path):
    with pytest.raises(OSError, match=path), recorded(path):
        raise AssertionError("not reached")


def test_a_full_device_ends_the_recording_and_not_the_run(tmp_path, capfd):
    with pytest.raises(OSError, match="No space left"), recorded("/dev/full"):
        launches("emu:gfx1100")
    said = capfd.readouterr().err
    assert said == (
        "sparkle: recording /dev/full: No space left on device; the recording stopped\n"
    )


def test_a_recording_is_bounded(tmp_path, capfd):
    path = tmp_path / "a.rec"
    with pytest.raises(OSError, match="too large"), recorded(path, max_nbytes=20000):
        launches("emu:gfx1100")
    assert path.stat().st_size < 20100
    assert path.read_text().endswith("# full: the rest is missing\n")
    assert "size limit" in capfd.readouterr().err
    assert list(read_recording(path.read_text()))


def test_only_one_recording_at_a_time(tmp_path):
    again = recorded(tmp_path / "b.rec")
    with recorded(tmp_path / "a.rec"), pytest.raises(ValueError, match="under way"):
        again.__enter__()


def test_a_device_that_outlives_its_recording_goes_on(tmp_path):
    path = tmp_path / "a.rec"
    with recorded(path):
        dev = sp.open("emu:gfx1100")
    size = path.stat().st_size
    with dev, dev.kernel("fill_f32") as kernel, dev.buffer(400) as y, dev.queue() as queue:
        queue.launch(kernel, y, 1.0, 100, groups=(7, 1, 1)).wait()
    assert path.stat().st_size == size


def test_large_buffers_are_named_and_left_out(tmp_path):
    path = tmp_path / "a.rec"
    with recorded(path, max_bo=4096):
        launches("emu:gfx1100")
    text = path.read_text()
    assert re.search(r"^unheld node=1 bo=\d+$", text, re.M)
    assert again(path, "emu:gfx1100").calls > 0


class Raw:
    """The calls of a machine, recorded, and a node through them."""

    def __init__(self, machine, path, flags=0):
        out = ffi.new("struct sp_record **")
        options = ffi.new("struct sp_record_options *", {"flags": flags})
        assert lib.sp_record_open(machine.ops, os.fsencode(path), options, out) == 0
        self.record, self.machine = out[0], machine
        self.ops = lib.sp_record_ops(self.record)

    def close(self):
        rc = lib.sp_record_stop(self.record, ffi.NULL)
        lib.sp_record_free(self.record)
        return rc


def create(ops, fd, nbytes):
    args = ffi.new("union drm_amdgpu_gem_create *")
    getattr(args, "in").bo_size, getattr(args, "in").domains = nbytes, 2
    rc = ops.ioctl(ops.self, fd, lib.DRM_IOCTL_AMDGPU_GEM_CREATE, args)
    return rc if rc < 0 else args.out.handle


def test_descriptors_of_one_open_are_one_node_and_numbers_come_again(tmp_path):
    path = tmp_path / "a.rec"
    with Machine() as machine:
        raw, node = Raw(machine, path), machine.open()
        assert create(raw.ops, node.fd, 4096) > 0
        twin = os.dup(node.fd)
        assert create(raw.ops, twin, 4096) > 0
        assert raw.ops.close(raw.ops.self, twin) == 0
        number, node.fd = node.fd, -1
        assert raw.ops.close(raw.ops.self, number) == 0
        other = machine.open()
        assert other.fd == number
        assert create(raw.ops, other.fd, 4096) > 0
        assert raw.close() == 0
        other.close()
    said = re.findall(r"^(node \d|close node=\d|ioctl \d node=\d)", path.read_text(), re.M)
    assert said == [
        *("node 1", "ioctl 1 node=1", "ioctl 2 node=1", "close node=1"),
        *("node 2", "ioctl 3 node=2", "close node=2"),
    ]


def test_threads_write_whole_lines_in_the_kernels_order(tmp_path):
    """Handles are given again once closed: only in the right order is none made twice."""
    path = tmp_path / "a.rec"

    def work(ops, fd):
        for _ in range(50):
            close = ffi.new("struct drm_gem_close *")
            close.handle = create(ops, fd, 4096)
            assert ops.ioctl(ops.self, fd, lib.DRM_IOCTL_GEM_CLOSE, close) == 0

    with Machine() as machine, machine.open() as node:
        raw = Raw(machine, path)
        crowd = [threading.Thread(target=work, args=(raw.ops, node.fd)) for _ in range(4)]
        for one in crowd:
            one.start()
        for one in crowd:
            one.join(ENDLESS)
        assert raw.close() == 0
    alive: set[int] = set()
    calls = [e for e in read_recording(path.read_text()) if getattr(e, "rc", -1) == 0]
    assert len(calls) == 400
    for call in calls:
        handle = int.from_bytes(call.after[:4], "little")
        assert (handle in alive) == (call.name == "GEM_CLOSE")
        alive ^= {handle}


@pytest.mark.parametrize("ended", [False, True])
def test_a_call_that_waits_outlives_its_node_and_its_recording(tmp_path, ended):
    path = tmp_path / "a.rec"
    with Machine() as machine:
        raw, node = Raw(machine, path), machine.open()
        assert create(raw.ops, node.fd, 4096) > 0
        handle = ffi.new(
            "uint32_t *", node.call("SYNCOBJ_CREATE", "struct drm_syncobj_create").handle
        )
        wait = ffi.new("struct drm_syncobj_wait *", {"count_handles": 1})
        wait.handles = int(ffi.cast("uintptr_t", handle))
        wait.flags = lib.DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT
        wait.timeout_nsec = time.monotonic_ns() + 300_000_000
        said: list[int] = []
        request = lib.DRM_IOCTL_SYNCOBJ_WAIT
        waiter = threading.Thread(
            target=lambda: said.append(raw.ops.ioctl(raw.ops.self, node.fd, request, wait))
        )
        waiter.start()
        time.sleep(0.1)
        if ended:
            assert lib.sp_record_stop(raw.record, ffi.NULL) == 0
        else:
            lib.sp_record_forget(raw.record, node.fd)
        waiter.join(ENDLESS)
        assert said == [-errno.ETIME]
        assert raw.close() == 0
        node.close()
    said = re.findall(r"^(node \d|close node=\d|ioctl \d)", path.read_text(), re.M)
    assert said == ["node 1", "ioctl 1", "close node=1"]


FORBIDDEN = """
import ctypes, errno, struct
# BPF of seccomp(2): process_vm_readv of x86-64 (310) or of others (270) is -EPERM
program = ctypes.create_string_buffer(struct.pack(
    "HBBI" * 5, 0x20, 0, 0, 0, 0x15, 1, 0, 310, 0x15, 0, 1, 270,
    0x06, 0, 0, 0x00050000 | errno.EPERM, 0x06, 0, 0, 0x7fff0000))
filter = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", 5, ctypes.addressof(program)))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, ctypes.byref(filter)) == 0
from sparkle_drv.lowlevel import recorded
try:
    recorded({path!r}).__enter__()
except PermissionError:
    print("told")
"""


@pytest.mark.skipif(os.uname().machine not in ("x86_64", "aarch64"), reason="no such filter")
def test_a_sandbox_in_which_nothing_could_be_read_is_told_at_once(tmp_path):
    script = FORBIDDEN.replace("{path!r}", repr(str(tmp_path / "a.rec")))
    done = subprocess.run((sys.executable, "-c", script), timeout=ENDLESS, capture_output=True)
    assert done.stdout == b"told\n", done.stderr.decode()


def test_pointers_to_nowhere_are_the_kernels_to_judge(tmp_path):
    with Machine() as machine, machine.open() as node:
        raw = Raw(machine, tmp_path / "a.rec")
        for request in (lib.DRM_IOCTL_AMDGPU_CS, lib.DRM_IOCTL_AMDGPU_INFO):
            bare = machine.ops.ioctl(machine.ops.self, node.fd, request, ffi.cast("void *", 8))
            assert raw.ops.ioctl(raw.ops.self, node.fd, request, ffi.cast("void *", 8)) == bare
        wait = ffi.new("struct drm_syncobj_wait *", {"handles": 8, "count_handles": 3})
        bare = machine.ops.ioctl(machine.ops.self, node.fd, lib.DRM_IOCTL_SYNCOBJ_WAIT, wait)
        assert bare < 0
        assert raw.ops.ioctl(raw.ops.self, node.fd, lib.DRM_IOCTL_SYNCOBJ_WAIT, wait) == bare
        assert raw.close() == 0


@contextlib.contextmanager
def through(monkeypatch, machine, path, flags=0):
    """What is asked of the machine meanwhile is recorded."""
    raw = Raw(machine, path, flags)
    with monkeypatch.context() as patch:
        patch.setattr(Machine, "ops", property(lambda _: raw.ops))
        yield raw
    assert raw.close() == 0


def map_at(node, bo, operation, va):
    """A page of `bo` mapped there for everything."""
    node.call(
        "AMDGPU_GEM_VA",
        "struct drm_amdgpu_gem_va",
        handle=bo.handle,
        operation=operation,
        flags=14,
        va_address=va,
        map_size=4096,
    )


def test_mappings_are_followed_through_replace_and_clear(tmp_path, monkeypatch):
    """What the recorder reads as an IB is what lies at its address when it is submitted."""
    path, nop = tmp_path / "a.rec", 0xFFFF1000
    with Machine() as machine, machine.open() as node, through(monkeypatch, machine, path):
        gpu = EmulatedGpu(node)
        low, high = gpu.buffer(4096), gpu.buffer(4096)
        low.write([nop] * 8)
        high.write([nop, nop, 0xC0004600, 0x407, nop, nop, nop, nop])
        for bo in (high, low):
            map_at(node, bo, lib.AMDGPU_VA_OP_REPLACE, low.va)
            gpu.wait(gpu.submit_ib("compute", low, 8, bos=[low, high]))
    first, second = lowlevel.read_ibs(path.read_text())
    assert first.dwords[2:4] == (0xC0004600, 0x407)
    assert second.dwords == (nop,) * 8


def everything(node):
    """One of each kind of call that names something."""
    gpu = EmulatedGpu(node)
    out, ib = gpu.buffer(4096), gpu.buffer(4096)
    ib.write([0xC0033700, 0x00100500, out.lo, out.hi, 42, *[0xFFFF1000] * 3])
    entry = ffi.new("struct drm_amdgpu_bo_list_entry[]", [(out.handle, 0), (ib.handle, 0)])
    where = int(ffi.cast("uintptr_t", entry))
    listed = node.call(
        "AMDGPU_BO_LIST", "union drm_amdgpu_bo_list",
        operation=0, bo_number=2, bo_info_size=8, bo_info_ptr=where,
    ).out.list_handle  # fmt: skip
    job = gpu.submit_ib("compute", ib, 8, bos=[out, ib])
    gpu.wait(job)
    assert out.words() == [42]
    sync = node.call("SYNCOBJ_CREATE", "struct drm_syncobj_create", flags=1).handle
    line = node.call("SYNCOBJ_CREATE", "struct drm_syncobj_create").handle
    node.call("SYNCOBJ_TRANSFER", "struct drm_syncobj_transfer",
              src_handle=sync, dst_handle=line, dst_point=3)  # fmt: skip
    handles, points = ffi.new("uint32_t[]", [line]), ffi.new("uint64_t[]", [3])
    arrays = {"handles": int(ffi.cast("uintptr_t", handles)), "count_handles": 1}
    both = {**arrays, "points": int(ffi.cast("uintptr_t", points))}
    node.call("SYNCOBJ_TIMELINE_WAIT", "struct drm_syncobj_timeline_wait", **both)
    node.call("SYNCOBJ_QUERY", "struct drm_syncobj_timeline_array", **both)
    node.call("SYNCOBJ_RESET", "struct drm_syncobj_array", **arrays)
    passed = node.call("SYNCOBJ_HANDLE_TO_FD", "struct drm_syncobj_handle", handle=sync)
    node.call("SYNCOBJ_FD_TO_HANDLE", "struct drm_syncobj_handle", fd=passed.fd)
    os.close(passed.fd)
    shared = node.call("PRIME_HANDLE_TO_FD", "struct drm_prime_handle", handle=out.handle, flags=2)
    node.call("PRIME_FD_TO_HANDLE", "struct drm_prime_handle", fd=shared.fd)
    os.close(shared.fd)
    fence = ffi.new("struct drm_amdgpu_fence[]", 1)
    fence[0].ctx_id, fence[0].ip_type, fence[0].seq_no = gpu.ctx, IP[job.ip], job.seq
    node.call("AMDGPU_WAIT_FENCES", "union drm_amdgpu_wait_fences",
              fences=int(ffi.cast("uintptr_t", fence)), fence_count=1, wait_all=1)  # fmt: skip
    turned = ffi.new("union drm_amdgpu_fence_to_handle *")
    getattr(turned, "in").fence = fence[0]
    getattr(turned, "in").what = lib.AMDGPU_FENCE_TO_HANDLE_GET_SYNCOBJ
    node.ioctl("AMDGPU_FENCE_TO_HANDLE", turned)
    info = ffi.new("struct drm_amdgpu_gem_create_in *")
    node.call("AMDGPU_GEM_OP", "struct drm_amdgpu_gem_op",
              handle=out.handle, value=int(ffi.cast("uintptr_t", info)))  # fmt: skip
    assert info.bo_size == 4096
    node.call("AMDGPU_GEM_WAIT_IDLE", "union drm_amdgpu_gem_wait_idle", handle=out.handle)
    node.call("AMDGPU_CTX", "union drm_amdgpu_ctx", op=4, ctx_id=gpu.ctx)
    node.call("AMDGPU_BO_LIST", "union drm_amdgpu_bo_list", operation=1, list_handle=listed)
    room = mmap.mmap(-1, 4096)
    user = node.call("AMDGPU_GEM_USERPTR", "struct drm_amdgpu_gem_userptr", size=4096, flags=13,
                     addr=int(ffi.cast("uintptr_t", ffi.from_buffer(room))))  # fmt: skip
    page = BufferObject(gpu.node, user.handle, 4096, node.take_va(4096))
    room[:4] = (7).to_bytes(4, "little")
    map_at(node, page, lib.AMDGPU_VA_OP_MAP, page.va)
    # COPY_DATA from memory to memory; what it copies is the program's own page.
    copy = [0xC0044000, 0x00100501, page.lo, page.hi, out.lo, out.hi]
    gpu.wait(gpu.submit("compute", copy, bos=[out, page]))
    assert out.words() == [7]
    with pytest.raises(OSError, match=r"ENOENT|EINVAL"):
        node.call("GEM_CLOSE", "struct drm_gem_close", handle=9999)
    map_at(node, page, lib.AMDGPU_VA_OP_UNMAP, page.va)
    page.close()
    return room


@pytest.mark.parametrize("memory", [True, False], ids=["memory", "calls"])
def test_every_kind_of_name_is_translated(tmp_path, monkeypatch, memory):
    """The replay's node has other handles: some are taken before it begins."""
    path = tmp_path / "a.rec"
    with (
        Machine() as machine,
        machine.open() as node,
        through(monkeypatch, machine, path, lib.SP_RECORD_MEMORY if memory else 0),
    ):
        room = everything(node)
    with Machine() as machine:

        def open_node(_):
            node = machine.open()
            EmulatedGpu(node)._kept.ctx = 0  # stays
            for _ in range(3):
                create(machine.ops, node.fd, 4096)
                node.call("SYNCOBJ_CREATE", "struct drm_syncobj_create")
            fd, node.fd = node.fd, -1
            return machine.ops, fd

        outcome = lowlevel.replay(path.read_text(), open_node)
    assert (outcome.difference, outcome.jobs) == ("", 2 if memory else 0)
    assert bool(outcome.skipped) != memory
    room.close()


def test_cards_are_found_by_number(tmp_path):
    for uri in ("amdgpu:x", "amdgpu:99"):
        with pytest.raises(sp.DeviceNotFound, match=uri):
            lowlevel.on_card(uri)
        (tmp_path / "a.rec").touch()
        with pytest.raises(sp.DeviceNotFound, match=uri):
            again(tmp_path / "a.rec", uri)
    with pytest.raises(ValueError, match="'cpu'"):
        again(tmp_path / "a.rec", "cpu")


FORKS = """
import os, sys
from sparkle_drv._native import ffi, lib
from sparkle_drv.testing.emulator import Machine
sys.path.insert(0, {folder!r})
from test_record import Raw, create
machine = Machine()
raw, node = Raw(machine, {path!r}), machine.open()
assert create(raw.ops, node.fd, 4096) > 0
if os.fork() == 0:
    assert create(raw.ops, node.fd, 4096) < 0  # the emulated machine is its parent's
    os._exit(0)
os.wait()
assert create(raw.ops, node.fd, 4096) > 0
os._exit(0 if not {crash} else os.kill(os.getpid(), 9))
"""


@pytest.mark.parametrize("crash", [False, True])
def test_forked_children_write_files_of_their_own_and_crashes_lose_nothing(tmp_path, crash):
    path = tmp_path / "a.rec"
    script = FORKS.format(folder=str(Path(__file__).parent), path=str(path), crash=crash)
    env = {**os.environ, "PYTHONPATH": kits()}
    done = subprocess.run((sys.executable, "-W", "ignore", "-c", script), env=env, timeout=ENDLESS)
    assert done.returncode == (-9 if crash else 0)
    (child,) = tmp_path.glob("a.rec.*")
    assert f"process {child.suffix[1:]} parent=" in child.read_text()
    assert [e.rc for e in read_recording(path.read_text()) if hasattr(e, "rc")] == [0, 0]
