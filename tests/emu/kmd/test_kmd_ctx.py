"""CTX and BO_LIST.

When this fails, contexts and buffer lists behave otherwise than in a real kernel.
"""

from __future__ import annotations

import errno

import pytest
from ioctls import address, create, ctx, refused, state, store

from sparkle_drv.testing.emulator import EmulatedGpu, Job, Machine, ffi


@pytest.mark.parametrize("priority", [-2048, -1023, -512, 0, 77, 2**31 - 1])
def test_priorities_up_to_normal_are_free(node, priority):
    assert ctx(node, "ALLOC_CTX", priority=priority).alloc.ctx_id == 1


@pytest.mark.parametrize("priority", [512, 1023])
def test_higher_ones_need_a_right(node, priority):
    with refused(errno.EACCES):
        ctx(node, "ALLOC_CTX", priority=priority)
    with Machine(["gfx1036"], sys_nice=True) as machine, machine.open() as other:
        assert ctx(other, "ALLOC_CTX", priority=priority).alloc.ctx_id == 1


@pytest.mark.parametrize("op", ["FREE_CTX", "QUERY_STATE", "QUERY_STATE2", "GET_STABLE_PSTATE"])
def test_an_unknown_context(node, op):
    for ctx_id in (0, 1, 2**32 - 1):
        with refused(errno.EINVAL):
            ctx(node, op, ctx_id=ctx_id)


@pytest.mark.parametrize("op", [0, 7, 2**32 - 1])
def test_an_unknown_operation(gpu, op):
    with refused(errno.EINVAL):
        ctx(gpu.node, op, ctx_id=gpu.ctx)


def test_a_fresh_context_has_seen_no_reset(gpu):
    assert state(gpu) == 0
    assert ctx(gpu.node, "QUERY_STATE", ctx_id=gpu.ctx).state.reset_status == 0


def test_stable_pstates(gpu):
    ctx(gpu.node, "SET_STABLE_PSTATE", ctx_id=gpu.ctx, flags=4)
    assert ctx(gpu.node, "GET_STABLE_PSTATE", ctx_id=gpu.ctx).pstate.flags == 4
    for flags in (5, 16):
        with refused(errno.EINVAL):
            ctx(gpu.node, "SET_STABLE_PSTATE", ctx_id=gpu.ctx, flags=flags)
    with refused(errno.EINVAL):
        ctx(gpu.node, "GET_STABLE_PSTATE", ctx_id=gpu.ctx, flags=1)


def test_jobs_of_a_freed_context_run_to_their_end(machine, node):
    gpu = EmulatedGpu(node)
    out = gpu.buffer(4096)
    machine.hold_jobs()
    gpu.submit("compute", store(out, 3), bos=[out])
    ctx(node, "FREE_CTX", ctx_id=gpu.ctx)
    assert machine.live_counts()["contexts"] == 1
    machine.hold_jobs(hold=False)
    ctype = "union drm_amdgpu_gem_wait_idle"
    node.call("AMDGPU_GEM_WAIT_IDLE", ctype, handle=out.handle, timeout=2**64 - 1)
    assert out.words() == [3]
    assert machine.live_counts()["contexts"] == 0
    gpu.ctx = 0
    gpu.close()
    out.close()


def bo_list(node, op, handles=(), *, handle=0, size=8, entries=None):
    given = entries or ffi.new("struct drm_amdgpu_bo_list_entry[]", [(h, 0) for h in handles])
    args = node.call(
        "AMDGPU_BO_LIST",
        "union drm_amdgpu_bo_list",
        operation=op,
        list_handle=handle,
        bo_number=len(handles),
        bo_info_size=size,
        bo_info_ptr=address(given),
    )
    return args.out.list_handle


CREATE, DESTROY, UPDATE = 0, 1, 2


def submit_with_list(gpu, ib, ndw, handle):
    chunk = ffi.new("struct drm_amdgpu_cs_chunk_ib *")
    chunk.va_start, chunk.ib_bytes, chunk.ip_type = ib.va, ndw * 4, 1
    return gpu.cs([(1, chunk)], bo_list=handle)


def run(gpu, ib, ndw, handle):
    gpu.wait(Job("compute", 0, submit_with_list(gpu, ib, ndw, handle)))


@pytest.fixture
def stored(gpu):
    """(an IB that stores 6 into a buffer, its length, the buffer)"""
    out, ib = gpu.buffer(4096), gpu.buffer(4096)
    words = store(out, 6) + [0xFFFF1000] * 3
    ib.write(words)
    yield ib, len(words), out
    out.close()
    ib.close()


def test_a_list_is_used_until_destroyed(gpu, stored):
    ib, ndw, out = stored
    handle = bo_list(gpu.node, CREATE, [out.handle, ib.handle])
    run(gpu, ib, ndw, handle)
    assert out.words() == [6]
    bo_list(gpu.node, DESTROY, handle=handle)
    with refused(errno.ENOENT):
        submit_with_list(gpu, ib, ndw, handle)


def test_an_updated_list_counts(gpu, stored):
    ib, ndw, out = stored
    handle = bo_list(gpu.node, CREATE, [ib.handle])
    bo_list(gpu.node, UPDATE, [ib.handle, out.handle], handle=handle)
    run(gpu, ib, ndw, handle)
    bo_list(gpu.node, DESTROY, handle=handle)


@pytest.mark.parametrize("size", [4, 12])
def test_entries_of_another_size(gpu, stored, size):
    ib, ndw, out = stored
    entries = ffi.new("uint32_t[6]")
    entries[0], entries[size // 4] = ib.handle, out.handle
    handle = bo_list(gpu.node, CREATE, [0, 0], size=size, entries=entries)
    run(gpu, ib, ndw, handle)
    bo_list(gpu.node, DESTROY, handle=handle)


def test_an_empty_list(gpu, stored):
    handle = bo_list(gpu.node, CREATE, [])
    with pytest.raises(OSError, match="unlisted"):
        run(gpu, stored[0], stored[1], handle)


def test_bad_lists(machine, node):
    with refused(errno.ENOENT):
        bo_list(node, CREATE, [1])
    with refused(errno.ENOENT):
        bo_list(node, UPDATE, [], handle=5)
    with refused(errno.EINVAL):
        bo_list(node, 3)
    ctype, bo = "union drm_amdgpu_bo_list", create(node)
    with refused(errno.EFAULT):
        node.call("AMDGPU_BO_LIST", ctype, bo_number=1, bo_info_size=8, bo_info_ptr=8)
    with refused(errno.EINVAL):
        node.call("AMDGPU_BO_LIST", ctype, bo_number=2**31, bo_info_size=8, bo_info_ptr=8)
    bo_list(node, DESTROY, handle=9)  # which the kernel does not mind
    assert (bo, machine.live_counts()["bo_lists"]) == (1, 0)


def test_a_list_holds_its_buffers(machine, node):
    bo = create(node)
    handle = bo_list(node, CREATE, [bo])
    node.call("GEM_CLOSE", "struct drm_gem_close", handle=bo)
    assert machine.live_counts()["bos"] == 1
    bo_list(node, DESTROY, handle=handle)
    assert machine.live_counts()["bos"] == 0


def test_a_list_knows_buffers_and_not_their_handles(gpu, stored):
    """A handle that was listed and is another BO's by now lists that one no more than any other."""
    ib, ndw, out = stored
    handle = bo_list(gpu.node, CREATE, [ib.handle, out.handle])
    at, old = out.va, out.handle
    out.close()
    fresh = gpu.buffer(4096, va=at)
    assert fresh.handle == old
    with pytest.raises(OSError, match=f"{at:#x} belongs to a BO of 4096 bytes.*not list"):
        run(gpu, ib, ndw, handle)
    assert fresh.words() == [0]
    fresh.close()
    bo_list(gpu.node, DESTROY, handle=handle)
