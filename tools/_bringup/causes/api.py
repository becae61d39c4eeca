"""Likely causes for devices with only the public API: cpu, egl, cuda."""

from __future__ import annotations

from .matching import Cause

DOCTOR = "python tools/sparkle.py doctor"

CAUSES = (
    Cause("not-there", "no such device, or none that is usable", "docs/bringup.md", ("open",),
          when=lambda f: f.get("raised") == "DeviceNotFound", next=DOCTOR),
    Cause("no-kernel", "the package has no kernel for this device: an incomplete installation",
          "docs/kernels.md", when=lambda f: f.get("raised") in ("ImageError", "FileNotFoundError"),
          next="pip install --force-reinstall sparkle_drv"),
    Cause("driver-compiler", "the driver's shader compiler refuses it", "docs/bringup.md",
          when=lambda f: f.get("raised") == "ImageError", next=DOCTOR),
    Cause("bad-memory", "memory, or the path to it, loses what is written",
          "docs/bringup.md", ("memory", "mapped", "transfer", "copy"),
          when=lambda f: f.get("mismatch"), next="memtester 256M 1"),
    Cause("wrong-results", "the device computes wrongly: driver, overclocking, or a broken unit",
          "docs/bringup.md", when=lambda f: f.get("mismatch"), next="python tools/bench.py run"),
    Cause("out-of-memory", "the device's memory is full", "docs/bringup.md",
          when=lambda f: f.get("raised") == "OutOfDeviceMemory", next="free -m"),
    Cause("lost", "the device was lost: a reset, an unplugged card, a driver that ended",
          "docs/bringup.md", when=lambda f: f.get("raised") == "DeviceLost", next=DOCTOR),
    Cause("hangs", "the driver does not come back, or the machine is too busy", "docs/bringup.md",
          when=lambda f: f.get("late") or f.get("hung"), next="uptime"),
    Cause("unknown", "no known cause: report it with --bundle", "docs/bringup.md",
          weight=-9, next="python tools/bringup.py ladder -d {device} --bundle b.tar.gz"),
)  # fmt: skip
