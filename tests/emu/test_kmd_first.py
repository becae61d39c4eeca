"""The helper that other tests of the emulator stand on."""

from __future__ import annotations


def store(buffer, value, offset=0):
    """WRITE_DATA of one dword with write confirmation."""
    va = buffer.va + offset
    return [0xC0033700, 0x00100500, va & 0xFFFFFFFF, va >> 32, value]


def test_a_job_writes_memory(gpu):
    out = gpu.buffer(4096)
    job = gpu.submit("compute", store(out, 42), bos=[out])
    gpu.wait(job)
    assert out.words(0, 2) == [42, 0]
    out.close()


def test_a_fault_is_told(machine, node, gpu):
    import pytest

    out = gpu.buffer(4096)
    job = gpu.submit("compute", store(out, 42))  # not listed
    with pytest.raises(OSError, match="unlisted"):
        gpu.wait(job)
    assert machine.fault().kind == "unlisted"
    assert machine.fault().va == out.va
    out.close()
