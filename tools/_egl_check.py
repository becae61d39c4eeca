"""Exits with 0 when EGL initialises at least one display that the egl backend would try.

_packages.py runs this file as a child process, since a driver may crash. The system's Python runs
it, because nothing is built yet. The file makes no GL context, because a display of Mesa always
supports one. Names and values are those of EGL 1.5, EGL_EXT_platform_device and
EGL_MESA_platform_surfaceless.
"""

import ctypes
import sys

SURFACELESS_MESA, DEVICE_EXT, MOST = 0x31DD, 0x313F, 16


def main() -> int:
    try:
        egl = ctypes.CDLL("libEGL.so.1")
        address, display_of, initialize = (
            getattr(egl, f"egl{name}")
            for name in ("GetProcAddress", "GetPlatformDisplay", "Initialize")
        )
    except (OSError, AttributeError):
        return 1
    address.restype = display_of.restype = ctypes.c_void_p
    display_of.argtypes = (ctypes.c_uint, ctypes.c_void_p, ctypes.c_void_p)
    initialize.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)

    natives: "list[tuple[int, int | None]]" = [(SURFACELESS_MESA, None)]
    devices, count = (ctypes.c_void_p * MOST)(), ctypes.c_int()
    query = address(b"eglQueryDevicesEXT")
    if query:
        ask = ctypes.CFUNCTYPE(ctypes.c_uint, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
        if ask(query)(MOST, devices, ctypes.addressof(count)):
            natives += [(DEVICE_EXT, device) for device in devices[: count.value]]
    for platform, native in natives:
        display = display_of(platform, native, None)
        if display and initialize(display, None, None):
            return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
