"""The kernel driver's interface from Python: render nodes, single ioctls, a minimal GPU.

Bring-up, replays and the emulator's tests use it, because each call is visible. The backend itself
reaches the kernel through native/amdgpu; it takes the list of render nodes from here.

    nodes.py    lists the render nodes, says why one cannot be opened
    raw.py      Node: one ioctl per call, through the seam
    gpu.py      Gpu: buffers with addresses, submission of dwords, waiting
"""
