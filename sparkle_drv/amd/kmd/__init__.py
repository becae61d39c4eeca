"""The kernel driver's interface from Python: render nodes, single ioctls, the least of a GPU.

Bring-up, replays and the emulator's tests use it, to see each call. The backend itself reaches the
kernel through native/amdgpu; it takes the list of render nodes from here.
"""
