"""The little of OpenCL 1.1 that run.py needs, by ctypes: one device, kernels, buffers.

Nothing here knows of Mesa or of emulated cards: this is the application. Signatures and numbers
are those of Khronos' CL/cl.h.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

DEVICE_TYPE_ALL = 0xFFFFFFFF
DEVICE_NAME, PROGRAM_BUILD_LOG = 0x102B, 0x1183
MEM_READ_WRITE, MEM_COPY_HOST_PTR = 1, 32
HANDLES = ("Context", "CommandQueue", "ProgramWithSource", "Kernel", "Buffer")


class Failed(Exception):
    """A call returned something else than CL_SUCCESS."""


class Local(int):
    """A kernel argument: so many bytes of local memory."""


class Device:
    """The only device of the only platform, with a context and a queue."""

    def __init__(self) -> None:
        self._cl = cl = ctypes.CDLL("libOpenCL.so.1")
        for name in HANDLES:
            getattr(cl, f"clCreate{name}").restype = ctypes.c_void_p
        platform, self._device = ctypes.c_void_p(), ctypes.c_void_p()
        self._must("clGetPlatformIDs", 1, ctypes.byref(platform), None)
        one = (platform, ctypes.c_uint64(DEVICE_TYPE_ALL), 1, ctypes.byref(self._device), None)
        self._must("clGetDeviceIDs", *one)
        self._context = self._made("Context", None, 1, ctypes.byref(self._device), None, None)
        self._queue = self._made("CommandQueue", self._context, self._device, ctypes.c_uint64(0))

    def _must(self, name: str, *arguments: object) -> None:
        rc = getattr(self._cl, name)(*arguments)
        if rc:
            raise Failed(f"{name}: {rc}")

    def _made(self, what: str, *arguments: object) -> ctypes.c_void_p:
        rc = ctypes.c_int()
        made = getattr(self._cl, f"clCreate{what}")(*arguments, ctypes.byref(rc))
        if rc.value:
            raise Failed(f"clCreate{what}: {rc.value}")
        return ctypes.c_void_p(made)

    def name(self) -> str:
        text = ctypes.create_string_buffer(256)
        self._must("clGetDeviceInfo", self._device, DEVICE_NAME, ctypes.c_size_t(256), text, None)
        return text.value.decode()

    def build(self, source: str) -> ctypes.c_void_p:
        """A program. Raises Failed with the compiler's words."""
        text = ctypes.c_char_p(source.encode())
        program = self._made("ProgramWithSource", self._context, 1, ctypes.byref(text), None)
        if self._cl.clBuildProgram(program, 1, ctypes.byref(self._device), None, None, None):
            log = ctypes.create_string_buffer(1 << 16)
            what = (program, self._device, PROGRAM_BUILD_LOG, ctypes.c_size_t(1 << 16), log, None)
            self._must("clGetProgramBuildInfo", *what)
            raise Failed(f"clBuildProgram: {log.value.decode().strip()}")
        return program

    def run(
        self,
        program: ctypes.c_void_p,
        kernel: str,
        arguments: Sequence[object],
        threads: int,
        group: int,
    ) -> list[np.ndarray]:
        """Runs it to its end; returns what is in the arrays among the arguments then.

        An argument is an array, a numpy scalar or Local.
        """
        made = self._made("Kernel", program, kernel.encode())
        arrays: list[tuple[ctypes.c_void_p, np.ndarray]] = []
        for number, value in enumerate(arguments):
            if isinstance(value, Local):
                nbytes, at = int(value), None
            elif isinstance(value, np.ndarray):
                arrays.append((self._buffer(value), value.copy()))
                nbytes, at = 8, ctypes.byref(arrays[-1][0])
            else:
                held = np.array([value])
                nbytes, at = held.nbytes, ctypes.c_void_p(held.ctypes.data)
            self._must("clSetKernelArg", made, number, ctypes.c_size_t(nbytes), at)
        sizes = (ctypes.c_size_t(threads), ctypes.c_size_t(group))
        at = (self._queue, made, 1, None, *(ctypes.byref(n) for n in sizes), 0, None, None)
        self._must("clEnqueueNDRangeKernel", *at)
        for buffer, array in arrays:
            where = (ctypes.c_size_t(0), ctypes.c_size_t(array.nbytes))
            to = ctypes.c_void_p(array.ctypes.data)
            self._must("clEnqueueReadBuffer", self._queue, buffer, 1, *where, to, 0, None, None)
        return [array for _, array in arrays]

    def _buffer(self, array: np.ndarray) -> ctypes.c_void_p:
        flags = ctypes.c_uint64(MEM_READ_WRITE | MEM_COPY_HOST_PTR)
        data = ctypes.c_void_p(array.ctypes.data)
        return self._made("Buffer", self._context, flags, ctypes.c_size_t(array.nbytes), data)
