"""The raw layer below the rungs, by short names (sparkle_drv.lowlevel's raw and raw_gpu)."""

from __future__ import annotations

from sparkle_drv.lowlevel import raw, raw_gpu

ffi, lib, pointer = raw.ffi, raw.lib, raw.pointer
IoctlError, Node = raw.IoctlError, raw.Node
Buffer, Gpu, Job, Late = raw_gpu.Buffer, raw_gpu.Gpu, raw_gpu.Job, raw_gpu.Late
IP, NOP, PAGE = raw_gpu.IP, raw_gpu.NOP, raw_gpu.PAGE
