"""OpenCL devices for sparkle_drv: "opencl:0" and so on, by pyopencl."""

from sparkle_opencl.backend import OpenCLBackend

__all__ = ["OpenCLBackend"]
