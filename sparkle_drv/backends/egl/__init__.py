"""The egl device: OpenGL compute through EGL, no window system. `BACKEND` is what the registry
opens.

    backend.py           EglBackend: the protocol of base.py over native/egl
    nodes.py             EGL's devices, ranked; what a context says of itself
    source.py            GLSL's #version, and the driver's log with its lines
    spirv.py             checks SPIR-V before a driver sees it
    cache.py             linked programs on disk
    launch_refusal.py    words for a launch that native code refused
"""

from sparkle_drv.backends.base import Backend
from sparkle_drv.backends.egl.backend import EglBackend

BACKEND: type[Backend] = EglBackend
