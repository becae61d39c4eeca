"""The devices that tests run on, by URI: each is always there, on every machine."""

from __future__ import annotations

# The tools run as processes of their own, which do not import sparkle_drv.testing, and they time.
OF_TOOLS = ("cpu", "egl:0")
USUAL = (*OF_TOOLS, "emu:gfx1036", "emu:gfx1100", "cuda:0")
OF_SUITE = (*USUAL, "cuda:1", "sim:gpu0")
