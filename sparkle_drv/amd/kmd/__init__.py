"""The kernel driver's interface from Python: render nodes, single ioctls, a minimal GPU.

Bring-up, replays and the emulator's tests use it, because each call is visible there. The backend
uses only the list of render nodes; it reaches the kernel driver through native/amdgpu.

    nodes.py    lists the render nodes, says why one cannot be opened
    raw.py      Node: one ioctl per call, through the seam
    gpu.py      Gpu: buffers with addresses, submission of dwords, waiting
"""
