"""The rungs: each file tests one ability that a driver or a device must have, lowest first.

causes/ says what a failure means. Called by ladder/families.py and the mem command.

    node.py           amdgpu: render node, driver version, chip, rings, firmware, heaps, contexts
    memory.py         amdgpu: buffers, patterns in every heap, GPU addresses
    packets.py        amdgpu: PM4 and SDMA: NOP, write, copy, wait, timestamps
    sync.py           amdgpu: fences, syncobjs, order between queues and contexts
    shader.py         amdgpu: waves: stores, ids, LDS, scratch, wave64, atomics
    coherence.py      amdgpu: visibility of writes: CPU, waves, new code, dispatches, engines
    share.py          amdgpu: host memory (userptr), PRIME, many jobs at once
    assumptions.py    amdgpu: code in VRAM that the CPU writes, the frequency of the clock
    hang.py           amdgpu, --allow-hang: endless jobs, page faults, bad packets, recovery
    cuda.py           cuda: the library, contexts, streams, copies, PTX, launches, graphs, peers
    api.py            any device, by the public API: from open to gemm and reduce
    kernels.py        no rung: the shaders of shader.py, and the IB that launches one
    patterns.py       no rung: memory tests by the CPU (walking 1s, moving inversions)
"""
