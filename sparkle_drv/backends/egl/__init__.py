"""The egl device: OpenGL compute through EGL, without a window system.

The registry opens `BACKEND`.

    backend.py           EglBackend: the protocol of base.py over native/egl
    nodes.py             EGL's devices, ranked, and the facts of an OpenGL context
    source.py            GLSL's #version, and the driver's log with source lines
    spirv.py             checks SPIR-V before a driver sees it
    cache.py             linked programs on disk
    launch_refusal.py    explains launches that native code refused
"""

from sparkle_drv.backends.base import Backend
from sparkle_drv.backends.egl.backend import EglBackend

BACKEND: type[Backend] = EglBackend
