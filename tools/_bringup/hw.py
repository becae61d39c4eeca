"""The raw layer below the rungs, by short names (sparkle_drv.lowlevel's raw and raw_gpu)."""

from __future__ import annotations

from sparkle_drv.lowlevel import raw, raw_gpu

ffi = raw.ffi
lib = raw.lib
pointer = raw.pointer
IoctlError = raw.IoctlError
Node = raw.Node
Buffer = raw_gpu.Buffer
Gpu = raw_gpu.Gpu
Job = raw_gpu.Job
Late = raw_gpu.Late
IP = raw_gpu.IP
NOP = raw_gpu.NOP
PAGE = raw_gpu.PAGE
