"""The egl device: OpenGL compute through EGL, no window system. `BACKEND` is what the registry
opens.
"""

from sparkle_drv.backends.base import Backend
from sparkle_drv.backends.egl.backend import EglBackend

BACKEND: type[Backend] = EglBackend
