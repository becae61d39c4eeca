"""What the rungs of the amdgpu family work on: one open card and its facts (`Bench`). The contexts
of a rung end with the rung.
"""

from __future__ import annotations

import contextlib
import errno
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from _bringup.causes.coherence import COHERENCE
from _bringup.causes.job import ANY, JOBS, WORK
from _bringup.causes.matching import Cause
from _bringup.causes.node import INFO_RUNGS, MEMORY, NODE
from _bringup.results.rung import Rung, Skip, Unmet, Wrong
from sparkle_drv.lowlevel import chips, raw, targets
from sparkle_drv.lowlevel import raw_gpu as gpus

from . import dump
from .hw import Buffer, Gpu, Job, state_words

CAUSES = (*NODE, *INFO_RUNGS, *MEMORY, *JOBS, *COHERENCE, *WORK, *ANY)
JOB_S = 5.0  # limit in seconds of a job that has microseconds of work
RINGS = ("compute", "gfx", "dma")


class Bench:
    """One AMD card on which the rungs of its ladder run. Rungs add what they learn to `facts`."""

    def __init__(self, card: Any, *, job_s: float = JOB_S) -> None:
        self.card, self.job_s = card, job_s
        self.facts: dict[str, Any] = {"emulated": card.emulated, "device": card.uri}
        self.causes: Sequence[Cause] = CAUSES
        # answers of the kernel driver that do not change: device, rings
        self.kept: dict[str, Any] = {}
        self._node: raw.DrmNode | None = None
        self._stack = ExitStack()
        self._gpus: list[Gpu] = []
        self._lost: int | None = None
        self._device: Any = None
        self._opened = False
        self._witness: Gpu | None = None
        self.hanging = False

    # Facts

    @property
    def node(self) -> raw.DrmNode:
        """The open render node. Raises raw.IoctlError or Wrong; raises Unmet if the render node
        opened before but not now.
        """
        if self._node is None:
            try:
                self._node = self.card.open()
            except (OSError, Wrong) as error:
                if self._opened:
                    raise Unmet(f"the render node does not open any more: {error}") from None
                raise
            self._opened = True
        return self._node

    @property
    def device(self) -> Any:
        """The answer of the DEV_INFO query."""
        if "device" not in self.kept:
            self.kept["device"] = self.node.info("DEV_INFO", "struct drm_amdgpu_info_device")
        return self.kept["device"]

    @property
    def memory(self) -> Any:
        """The answer of the MEMORY query, made anew each time."""
        return self.node.info("MEMORY", "struct drm_amdgpu_memory_info")

    def ip(self, name: str) -> Any:
        """Returns the answer of HW_IP_INFO for "gfx", "compute" or "dma"."""
        if name not in self.kept:
            self.kept[name] = self.node.info(
                "HW_IP_INFO", "struct drm_amdgpu_info_hw_ip", query_hw_ip__type=gpus.IP[name]
            )
        return self.kept[name]

    @property
    def isa(self) -> str:
        """The instruction set, such as "gfx1100"; for an unknown chip, the kernel driver's words
        for it.
        """
        gfx, device = self.ip("gfx"), self.device
        return chips.target(gfx, device) or f"unknown chip ({chips.words(gfx, device)})"

    @property
    def gfx(self) -> int:
        """10 or 11: the generation of packets and registers. Raises Skip for any other."""
        if not chips.target(self.ip("gfx"), self.device):
            raise Skip(f"{self.isa}: packets are known only for gfx10.3 and gfx11")
        return targets.gfx_level(self.isa)

    @property
    def engines(self) -> int:
        """The number of shader engines."""
        return max(1, int(self.device.num_shader_engines))

    def rings(self, ip: str) -> int:
        """Returns the number of rings of an IP. Raises Skip if the kernel driver reports none."""
        mask = int(self.ip(ip).available_rings)
        if not mask:
            raise Skip(f"no {ip} ring: HW_IP_INFO's available_rings is 0")
        return mask.bit_count()

    # Work

    def gpu(self) -> Gpu:
        """Returns a new GPU context, which ends with the rung."""
        made = Gpu(self.node)
        self._gpus.append(made)
        return made

    def hold(self, context: Any) -> Any:
        """Enters a context manager and returns its value. The rung's end leaves the context."""
        return self._stack.enter_context(context)

    def run(
        self, gpu: Gpu, ip: str, dwords: Sequence[int], *bos: Buffer, ring: int = 0,
        timeout_s: float | None = None,
    ) -> Job:  # fmt: skip
        """Submits a job and waits for it."""
        job = gpu.submit(ip, dwords, bos=bos, ring=ring)
        gpu.wait(job, timeout_s or self.job_s)
        return job

    def eventually(self, test: Any, timeout_s: float = 1.0) -> bool:
        """Returns whether `test()` becomes true within `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        while not test():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.001)
        return True

    def device_api(self) -> Any:
        """Returns the card's `sparkle_drv.Device`. It is opened once, and stays open until this
        object closes it.
        """
        if self._device is None:
            self._device = self.card.device()
        return self._device

    def _close_device(self) -> None:
        device, self._device = self._device, None
        if device is not None:
            with contextlib.suppress(Exception):
                device.close()

    # runner.Bench

    def begin(self, rung: Rung) -> None:
        self.hanging = rung.hangs
        if rung.hangs:
            self._close_device()

    def _lost_counter(self) -> int | None:
        try:
            return int(self.node.info("VRAM_LOST_COUNTER", "uint32_t"))
        except raw.IoctlError as error:
            if error.errno != errno.EINVAL:  # EINVAL: this kernel driver has no such counter
                raise
            return None

    def settle(self) -> None:
        stack, self._stack = self._stack, ExitStack()
        stack.close()
        gpus_, self._gpus = self._gpus, []
        states = 0
        for gpu in gpus_:
            states |= gpu.state()
            gpu.close()
        # A render node of another driver than amdgpu has no VRAM_LOST_COUNTER. The rung `version`
        # reports such a driver, and so does the making of a context.
        if self._node is not None and (gpus_ or self.facts.get("driver") == "amdgpu"):
            self._look(states, bool(gpus_))

    def _look(self, states: int, contexts: bool) -> None:
        """Raises Wrong if the GPU was reset, or lost the contents of VRAM, during the last rung.

        `states` has the reset flags of the rung's GPU contexts, `contexts` says whether there were
        any. After the first rung with a GPU context, makes another one and keeps it open. This
        context shows resets during later rungs that have no context of their own. After a rung that
        is meant to hang, checks nothing and closes this context.
        """
        before, self._lost = self._lost, self._lost_counter()
        witness = self._witness
        if self.hanging:
            self._witness = None
            if witness is not None:
                witness.close()
            return
        if witness is not None:
            states |= witness.state()
        elif contexts:
            self._witness = Gpu(self.node)
        if None not in (before, self._lost) and before != self._lost:
            raise Wrong(
                f"VRAM was lost during this rung (VRAM_LOST_COUNTER {before} to {self._lost})",
                vram_lost=True,
                reset=True,
            )
        if states & raw.lib.AMDGPU_CTX_QUERY2_FLAGS_RESET:
            raise Wrong(
                f"the GPU was reset during this rung (QUERY_STATE2 {state_words(states)})",
                reset=True,
                vram_lost=bool(states & raw.lib.AMDGPU_CTX_QUERY2_FLAGS_VRAMLOST),
            )

    def recover(self) -> None:
        stack, self._stack = self._stack, ExitStack()
        with contextlib.suppress(Exception):
            stack.close()
        self._close_device()
        if self._witness is not None:
            self._gpus.append(self._witness)
            self._witness = None
        gpus_, self._gpus = self._gpus, []
        for gpu in gpus_:
            with contextlib.suppress(OSError):
                gpu.close()
        node, self._node, self._lost = self._node, None, None
        if node is not None:
            with contextlib.suppress(OSError):
                node.close()

    def abandon(self) -> None:
        self._stack.pop_all()
        self._stack = ExitStack()
        self._gpus, self._node, self._lost, self._device = [], None, None, None
        self._witness = None

    def autopsy(self, error: BaseException) -> dict[str, Any]:
        return dump.autopsy(self, self._gpus, error)

    def node_is_open(self) -> bool:
        return self._node is not None

    def last_call(self) -> str:
        """Returns the name of the last ioctl."""
        return self._node.last if self._node is not None else ""

    def close(self) -> None:
        self.recover()
        self.card.close()
