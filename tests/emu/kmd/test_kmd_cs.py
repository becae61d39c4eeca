"""CS: its chunks, their rules, the order of jobs, what they wait for.

When this fails, submissions that a real kernel refuses or reorders pass on the emulator.
"""

from __future__ import annotations

import errno
import os
import threading

import pytest
from ioctls import Syncobj, address, await_word, refused, soon, store, wait_cs

from sparkle_drv.testing.emulator import IP, NOP, EmulatedGpu, Job, Machine, ffi

IB, FENCE, DEPENDENCIES, IN, OUT, BOS, SCHEDULED, WAIT, SIGNAL = range(1, 10)


def ib_chunk(ib, ndw=8, **fields):
    values = {"va_start": ib.va, "ib_bytes": ndw * 4, "ip_type": 1} | fields
    return (IB, ffi.new("struct drm_amdgpu_cs_chunk_ib *", values))


@pytest.fixture
def ib(gpu):
    """An IB of 8 NOPs, always valid."""
    made = gpu.buffer(4096, flags=0x40)
    made.write([NOP] * 8)
    yield made
    made.close()


@pytest.fixture
def out(gpu):
    made = gpu.buffer(4096, flags=0x40, rights="rwu")
    yield made
    made.close()


def test_sequence_numbers_count_in_each_entity(gpu, ib):
    assert [gpu.cs([ib_chunk(ib)]) for _ in range(3)] == [1, 2, 3]
    assert gpu.cs([ib_chunk(ib, ring=1)]) == 1
    assert gpu.cs([ib_chunk(ib, ip_type=0)]) == 1
    for ip, ring, seq in (("compute", 0, 3), ("compute", 1, 1), ("gfx", 0, 1)):
        gpu.wait(Job(ip, ring, seq))


@pytest.mark.parametrize(
    "fields",
    [
        {"ip_instance": 1},
        {"ip_type": 3},
        {"ip_type": 99},
        {"ring": 4},
        {"ip_type": 0, "ring": 1},
        {"ip_type": 2, "ring": 2},
        {"flags": 1},  # CE on compute
    ],
)
def test_bad_ibs(gpu, ib, fields):
    with refused(errno.EINVAL):
        gpu.cs([ib_chunk(ib, **fields)])


@pytest.mark.parametrize("nbytes", [3, 35])
def test_an_ib_of_no_whole_dwords(machine, gpu, ib, nbytes):
    """The kernel drops the rest; a driver that counts so has a mistake, and is told of it."""
    with pytest.raises(OSError, match=f"{ib.va:#x} has {nbytes} bytes"):
        gpu.wait(Job("compute", 0, gpu.cs([ib_chunk(ib, ib_bytes=nbytes)])))
    assert machine.fault().kind == "ib"


def test_an_unknown_context(gpu, ib):
    gpu.ctx, mine = 77, gpu.ctx
    with refused(errno.EINVAL):
        gpu.cs([ib_chunk(ib)])
    gpu.ctx = mine


def test_no_chunks_and_no_ib(gpu):
    with refused(errno.EINVAL):
        gpu.cs([])
    with refused(errno.EINVAL):
        gpu.cs([(IN, ffi.new("uint32_t[0]"))])


@pytest.mark.parametrize("kind", [0, 10, 11, 99])
def test_unknown_chunks(gpu, ib, kind):
    with refused(errno.EINVAL):
        gpu.cs([ib_chunk(ib), (kind, ffi.new("uint32_t[8]"))])


@pytest.mark.parametrize("kind", [IB, FENCE, BOS])
def test_chunks_that_are_too_short(gpu, ib, kind):
    with refused(errno.EINVAL):
        gpu.cs([ib_chunk(ib), (kind, ffi.new("uint32_t[1]"))])


def test_bad_pointers(gpu):
    ctype = "union drm_amdgpu_cs"
    with refused(errno.EFAULT):
        gpu.node.call("AMDGPU_CS", ctype, ctx_id=gpu.ctx, num_chunks=1, chunks=8)
    pointer = ffi.new("uint64_t *", 8)
    with refused(errno.EFAULT):
        gpu.node.call("AMDGPU_CS", ctype, ctx_id=gpu.ctx, num_chunks=1, chunks=address(pointer))
    chunk = ffi.new(
        "struct drm_amdgpu_cs_chunk *", {"chunk_id": 1, "length_dw": 8, "chunk_data": 8}
    )
    pointer[0] = address(chunk)
    with refused(errno.EFAULT):
        gpu.node.call("AMDGPU_CS", ctype, ctx_id=gpu.ctx, num_chunks=1, chunks=address(pointer))
    with refused(errno.EINVAL):
        gpu.node.call("AMDGPU_CS", ctype, ctx_id=gpu.ctx, num_chunks=2**31, chunks=8)


@pytest.mark.parametrize(("ip", "most"), [("gfx", 192), ("compute", 125), ("dma", 49)])
def test_the_most_ibs_of_a_job(gpu, ib, ip, most):
    ib.write([0 if ip == "dma" else NOP] * 8)
    gpu.wait(Job(ip, 0, gpu.cs([ib_chunk(ib, ip_type=IP[ip])] * most)))
    with refused(errno.EINVAL):
        gpu.cs([ib_chunk(ib, ip_type=IP[ip])] * (most + 1))


def test_ibs_run_in_order(gpu, out):
    first, second = gpu.buffer(4096, flags=0x40), gpu.buffer(4096, flags=0x40)
    first.write([*store(out, 1), *[NOP] * 3])
    second.write([*store(out, 2), *[NOP] * 3])
    gpu.wait(Job("compute", 0, gpu.cs([ib_chunk(first), ib_chunk(second)])))
    assert out.words() == [2]
    first.close()
    second.close()


def test_ibs_of_one_job_go_to_one_entity(gpu, ib):
    with refused(errno.EINVAL):
        gpu.cs([ib_chunk(ib), ib_chunk(ib, ring=1)])


def test_a_list_and_a_chunk_of_handles_exclude_each_other(gpu, ib):
    handles = ffi.new("struct drm_amdgpu_bo_list_in *")
    with refused(errno.EINVAL):
        gpu.cs([ib_chunk(ib), (BOS, handles), (BOS, handles)])


def user_fence(buffer, offset=0):
    return (FENCE, ffi.new("struct drm_amdgpu_cs_chunk_fence *", [buffer.handle, offset]))


def test_the_user_fence_gets_the_sequence_number(gpu, ib, out):
    for seq in (1, 2):
        gpu.wait(Job("compute", 0, gpu.cs([ib_chunk(ib), user_fence(out, 4088)])))
        assert out.words(1022, 2) == [seq, 0]


def test_bad_user_fences(gpu, ib, out):
    large = gpu.buffer(8192)
    for buffer, offset in ((out, 4), (out, 4089), (out, 2**32 - 1), (large, 0)):
        with refused(errno.EINVAL):
            gpu.cs([ib_chunk(ib), user_fence(buffer, offset)])
    large.close()
    large.handle = 99
    with refused(errno.EINVAL):
        gpu.cs([ib_chunk(ib), user_fence(large)])
    large.handle = 0


def dependency(gpu, job, kind=DEPENDENCIES):
    dep = ffi.new("struct drm_amdgpu_cs_chunk_dep *", [IP[job.ip], 0, job.ring, gpu.ctx, job.seq])
    return (kind, dep)


@pytest.mark.parametrize("kind", [DEPENDENCIES, SCHEDULED])
def test_a_dependency_is_waited_for_across_rings(gpu, out, kind):
    first = gpu.submit("compute", await_word(out, 5), ring=0)
    second = gpu.submit("compute", store(out, 1, 64), ring=1, chunks=[dependency(gpu, first, kind)])
    assert wait_cs(gpu, second, soon(0.03)) == 1
    out.write([5])
    gpu.wait(second)
    assert wait_cs(gpu, first) == 0


def test_entities_run_beside_each_other(gpu, out):
    first = gpu.submit("compute", await_word(out, 5), ring=0)
    for ring in (1, 2, 3):
        gpu.wait(gpu.submit("compute", store(out, ring, 64), ring=ring))
    gpu.wait(gpu.submit("gfx", store(out, 5)))
    gpu.wait(first)


def test_bad_dependencies(gpu, ib):
    job = Job("compute", 0, gpu.cs([ib_chunk(ib)]))
    gpu.wait(job)
    with refused(errno.EINVAL):
        gpu.cs([ib_chunk(ib), dependency(gpu, job._replace(seq=2))])
    with refused(errno.EINVAL):
        gpu.cs([ib_chunk(ib), dependency(gpu, job._replace(ring=4))])
    _, dep = dependency(gpu, job)
    dep.ctx_id = 99
    with refused(errno.EINVAL):
        gpu.cs([ib_chunk(ib), (DEPENDENCIES, dep)])


def test_the_33rd_job_waits_for_the_first(machine, gpu, ib):
    machine.hold_jobs()
    for _ in range(32):
        gpu.cs([ib_chunk(ib)])
    done = []
    thread = threading.Thread(target=lambda: done.append(gpu.cs([ib_chunk(ib)])))
    thread.start()
    thread.join(0.03)
    assert thread.is_alive()
    machine.hold_jobs(hold=False)
    thread.join()
    assert done == [33]
    gpu.wait(Job("compute", 0, 33))
    assert wait_cs(gpu, Job("compute", 0, 1)) == 0  # no longer tracked: done


def test_syncobjs_in_and_out(gpu, out):
    sync = Syncobj(gpu.node)
    with refused(errno.EINVAL):  # nobody has promised it
        gpu.submit("compute", store(out, 1), chunks=[(IN, ffi.new("uint32_t[]", [sync.handle]))])
    array = ffi.new("uint32_t[]", [sync.handle])
    first = gpu.submit("compute", await_word(out, 1), chunks=[(OUT, array)])
    second = gpu.submit("compute", store(out, 7, 64), ring=1, chunks=[(IN, array)])
    with refused(errno.ETIME):
        sync.wait()
    assert wait_cs(gpu, second, soon(0.02)) == 1
    out.write([1])
    sync.wait(soon())
    gpu.wait(second)
    gpu.wait(first)
    sync.destroy()


def points(*given):
    return ffi.new("struct drm_amdgpu_cs_chunk_syncobj[]", [(s.handle, 0, p) for s, p in given])


def test_timelines_in_and_out(gpu, out):
    line, box = Syncobj(gpu.node), Syncobj(gpu.node)
    chunk = (SIGNAL, points((line, 3), (box, 0)))  # as RADV does: point 0 is a binary one
    first = gpu.submit("compute", await_word(out, 1), chunks=[chunk])
    second = gpu.submit("gfx", store(out, 7, 64), chunks=[(WAIT, points((line, 2)))])
    assert line.query() == 0
    assert line.query(flags=1) == 3
    out.write([1])
    gpu.wait(second)
    assert line.query() == 3
    box.wait(soon())
    gpu.wait(first)
    line.destroy()
    box.destroy()


def signal_points(line, count):
    """SYNCOBJ_TIMELINE_SIGNAL of the points 2, 3, .. of one timeline in a single call."""
    handles = ffi.new("uint32_t[]", [line.handle] * count)
    values = ffi.new("uint64_t[]", list(range(2, count + 2)))
    ctype = "struct drm_syncobj_timeline_array"
    fields = {"handles": address(handles), "points": address(values), "count_handles": count}
    line.node.call("SYNCOBJ_TIMELINE_SIGNAL", ctype, **fields)


def test_a_timeline_of_any_length_signals_at_once(gpu, out):
    """300,000 points behind one job, each joined with the one before: no stack is that deep."""
    line = Syncobj(gpu.node)
    job = gpu.submit("compute", await_word(out, 5), chunks=[(SIGNAL, points((line, 1)))])
    signal_points(line, 300_000)
    assert line.query() == 0
    out.write([5])
    gpu.wait(job)
    assert line.query() == 300_001
    line.destroy()


def test_a_wait_may_be_for_what_is_submitted_later(gpu, out):
    line = Syncobj(gpu.node)
    wait = ffi.new("struct drm_amdgpu_cs_chunk_syncobj[]", [(line.handle, 2, 1)])  # FOR_SUBMIT
    jobs = []
    words = store(out, 7)
    thread = threading.Thread(
        target=lambda: jobs.append(gpu.submit("compute", words, chunks=[(WAIT, wait)]))
    )
    thread.start()
    thread.join(0.02)
    assert thread.is_alive()
    line.signal(1)
    thread.join()
    gpu.wait(jobs[0])
    line.destroy()


def test_only_one_chunk_says_whom_to_tell(gpu, ib):
    sync = Syncobj(gpu.node)
    array = ffi.new("uint32_t[]", [sync.handle])
    for second in ((OUT, array), (SIGNAL, points((sync, 1)))):
        with refused(errno.EINVAL):
            gpu.cs([ib_chunk(ib), (OUT, array), second])
    with refused(errno.EINVAL):
        gpu.cs([ib_chunk(ib), (OUT, ffi.new("uint32_t[]", [99]))])
    with refused(errno.ENOENT):
        gpu.cs([ib_chunk(ib), (IN, ffi.new("uint32_t[]", [99]))])
    sync.destroy()


def test_an_empty_ib_is_done_at_once(gpu, ib):
    gpu.wait(Job("compute", 0, gpu.cs([ib_chunk(ib, ndw=0)])))


def test_implicit_sync_is_only_for_others(machine, gpu):
    """Another open's job on a shared BO is waited for, one's own is not."""
    shared = gpu.buffer(4096, rights="rwu")
    prime = gpu.node.call("PRIME_HANDLE_TO_FD", "struct drm_prime_handle", handle=shared.handle)
    with machine.open(0) as node, EmulatedGpu(node) as other:
        got = node.call("PRIME_FD_TO_HANDLE", "struct drm_prime_handle", fd=prime.fd)
        theirs = other.buffer(4096)
        theirs.handle, own = got.handle, theirs.handle
        first = gpu.submit("compute", await_word(shared, 1), bos=[shared])
        mine = gpu.submit("compute", [NOP], bos=[shared], ring=1)
        gpu.wait(mine)
        second = other.submit("compute", [NOP], bos=[theirs])
        assert wait_cs(other, second, soon(0.02)) == 1
        shared.write([1])
        other.wait(second)
        gpu.wait(first)
        theirs.close()
        theirs.handle = own
        theirs.close()
    os.close(prime.fd)
    shared.close()


def test_random_delays_show_that_completion_is_later():
    with Machine(["gfx1036"], delay_s=0.05, seed=3) as machine, machine.open() as node:
        gpu = EmulatedGpu(node)
        out = gpu.buffer(4096)
        early = 0
        for value in range(1, 6):
            job = gpu.submit("compute", store(out, value), bos=[out])
            early += wait_cs(gpu, job) == 1
            gpu.wait(job)
            assert out.words() == [value]
        assert early
