"""Cards with one defect each, and the rung of tools/bringup.py's ladder that must find it.

    defect = PLANTED["sdma-fill"]
    with defect.machine("gfx1100") as machine:  # its card 0 has the defect
        ...

Each entry of PLANTED says how to plant the defect, which rung must be the first to fail, and a
phrase. One of the causes that this rung names must contain the phrase.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sparkle_drv._emu import lib

from sparkle_drv.testing.emulated_faults import apply
from sparkle_drv.testing.emulator import Machine
from sparkle_drv.testing.faults import Fault, Schedule

__all__ = ["PLANTED", "Planted", "machine"]

MIB = 1 << 20
JOB_LIMIT_S = 0.3
FOR_EVER = 2**32 - 1
VRAM, GTT = lib.AMDGPU_GEM_DOMAIN_VRAM, lib.AMDGPU_GEM_DOMAIN_GTT


@dataclass(frozen=True)
class Break:
    """A change that breaks a machine; `do` makes the change, `what` names the broken part.

    No two changes of one card may have the same `what`.
    """

    what: str
    do: Callable[[Machine], None]


@dataclass(frozen=True)
class Planted:
    """One defect: how to plant it, and what the bring-up ladder must say of it.

    The defect consists of `options` of the Machine, and of changes (`does`) of the machine before
    its card is opened. `rung` is the first rung that must fail. One of the causes that this rung
    names must contain the phrase `cause`.
    """

    name: str
    rung: str
    cause: str
    does: tuple[Break, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def breaks(self) -> frozenset[str]:
        """The names of the options and machine parts that the defect changes."""
        return frozenset((*self.options, *(change.what for change in self.does)))

    def machine(self, chip: str = "gfx1100") -> Machine:
        """Returns a machine whose card 0 has the defect."""
        return machine(chip, self)


def machine(chip: str, *defects: Planted) -> Machine:
    """Returns a machine of one card with all these defects. Raises ValueError if two defects change
    the same part.
    """
    options: dict[str, Any] = {"job_limit_s": JOB_LIMIT_S, "kms_minor": 58}
    broken = [what for defect in defects for what in defect.breaks]
    if len(set(broken)) < len(broken):
        raise ValueError(
            "expected defects of different parts: two of "
            f"{', '.join(d.name for d in defects)} break one thing"
        )
    for defect in defects:
        options |= defect.options
    broken_machine = Machine([chip], **options)
    for defect in defects:
        for change in defect.does:
            change.do(broken_machine)
    return broken_machine


def _flaw(name: str, a: int = 0, b: int = 0) -> Break:
    return Break(name, lambda machine: machine.plant(name, a, b))


def _refuses(ioctl: str, error: int) -> Break:
    """Returns a change that makes every ioctl of this DRM_IOCTL_ name fail with `error`."""
    number = getattr(lib, f"DRM_IOCTL_{ioctl}")
    return Break(ioctl, lambda machine: machine.fail_ioctl(number, error, FOR_EVER))


# Family and external_rev of another chip of the same generation, gfx1033 or gfx1102. The rung
# `device` accepts these values, so that a later rung must find the defect.
_NEIGHBOUR = {10: (lib.AMDGPU_FAMILY_VGH, 0x01), 11: (lib.AMDGPU_FAMILY_GC_11_0_0, 0x10)}


def _neighbour() -> Break:
    """Returns a change that makes two ioctls disagree: DEV_INFO names gfx1033 or gfx1102,
    HW_IP_INFO the card's own chip.
    """
    return Break(
        "family", lambda machine: machine.plant("family", *_NEIGHBOUR[int(machine.chips[0][3:5])])
    )


def _plan(*faults: Fault) -> Break:
    return Break("plan", lambda machine: apply(Schedule(0, faults), machine))


def _submit_fails(error: str) -> Break:
    return _plan(Fault("submit", 1, "fail", error=error, count=0))


_ALL = (
    Planted("no-permission", "node", "group that the node belongs to",
            (_flaw("open", errno.EACCES),)),
    Planted("node-gone", "node", "card was removed", (_flaw("open", errno.ENXIO),)),
    Planted("other-driver", "version", "another card", (_flaw("driver"),)),
    Planted("old-kernel", "version", "before Linux 5.3", options={"kms_minor": 31}),
    Planted("no-syncobj", "caps", "syncobjs", (_flaw("cap", lib.DRM_CAP_SYNCOBJ),)),
    Planted("no-timeline", "caps", "timeline", (_flaw("cap", lib.DRM_CAP_SYNCOBJ_TIMELINE),)),
    Planted("no-acceleration", "accel", "gave up on the engines", (_flaw("accel"),)),
    Planted("wrong-family", "device", "family", (_flaw("family", 0x8E),)),
    Planted("unknown-chip", "device", "family", (_flaw("chip", 13 << 16),)),
    Planted("two-names", "isa-name", "name two chips", (_neighbour(),)),
    Planted("compute-off", "ring-compute", "has this engine off",
            (_flaw("ring", lib.AMDGPU_HW_IP_COMPUTE),)),
    Planted("gfx-off", "ring-gfx", "has this engine off", (_flaw("ring", lib.AMDGPU_HW_IP_GFX),)),
    Planted("dma-off", "ring-dma", "has this engine off", (_flaw("ring", lib.AMDGPU_HW_IP_DMA),)),
    Planted("no-firmware", "firmware", "microcode is missing", (_flaw("firmware"),)),
    Planted("bar-256", "bar", "legacy 256 MiB", options={"visible_nbytes": 256 * MIB}),
    Planted("clock-unknown", "clock", "does not know the frequency", (_flaw("frequency", 0),)),
    Planted("clock-stopped", "clock", "reference clock stands", (_flaw("clock"),)),
    Planted("context-refused", "contexts", "refuses this call to this user",
            (_refuses("AMDGPU_CTX", errno.EACCES),)),
    Planted("gtt-tiny", "bo-gtt", "GTT is full", options={"gtt_nbytes": MIB}),
    Planted("dirty-memory", "bo-gtt", "did not clear", (_flaw("dirty"),)),
    Planted("stuck-bit-gtt", "mem-gtt", "one data line or cell",
            (_flaw("bit", GTT, 0x1234 * 8 + 5),)),
    Planted("stuck-bit-vram", "mem-visible", "one data line or cell",
            (_flaw("bit", VRAM, 0x1234 * 8 + 7),)),
    Planted("address-line", "mem-visible", "aliased address lines", (_flaw("line", VRAM, 16),)),
    Planted("va-refused", "va-map", "outside DEV_INFO's range", (_flaw("va", 1 << 46),)),
    Planted("va-no-memory", "va-map", "no memory for page tables",
            (_refuses("AMDGPU_GEM_VA", errno.ENOMEM),)),
    Planted("cs-no-memory", "nop-compute", "no room for the job's buffers",
            (_submit_fails("ENOMEM"),)),
    Planted("cs-malformed", "nop-compute", "malformed", (_submit_fails("EINVAL"),)),
    Planted("cs-forbidden", "nop-compute", "refuses this call to this user",
            (_submit_fails("EACCES"),)),
    Planted("interrupts-lost", "nop-compute", "interrupts do not arrive", (_flaw("interrupt"),)),
    Planted("vram-lost", "nop-compute", "lost VRAM's contents",
            (_plan(Fault("submit", 2, "reset", vram_lost=1)),)),
    Planted("unplugged", "nop-compute", "the card is gone",
            (_plan(Fault("submit", 2, "unplug")),)),
    Planted("ring-hangs", "nop-compute", "does not execute its packets",
            (_plan(Fault("job", 1, "hang")),)),
    Planted("write-data", "write-data", "writes other data than its packet",
            (_flaw("write_data", 1 << 9),)),
    Planted("copy-data", "copy-data", "writes other data than its packet",
            (_flaw("copy_data", 1 << 20),)),
    Planted("no-wait", "wait-reg-mem", "does not wait", (_flaw("wait"),)),
    Planted("release-lost", "release-mem", "end of the pipe", (_flaw("release"),)),
    Planted("gcr-hangs", "sdma-gcr", "stops at GCR_REQ", (_flaw("mem_sync"),)),
    Planted("sdma-fill", "sdma-fill", "copy engine moves data wrongly",
            (_flaw("sdma_fill", 1 << 3),)),
    Planted("sdma-copy", "sdma-copy", "copy engine moves data wrongly",
            (_flaw("sdma_copy", 777, 6),)),
    Planted("dependencies-lost", "queue-order", "dependencies between queues",
            (_flaw("dependency", 7),)),
    Planted("fence-lost", "fences", "the word of the FENCE chunk is not written",
            (_flaw("fence"),)),
    Planted("no-waves", "store", "no data arrived", (_flaw("dispatch"),)),
    Planted("ids-swapped", "ids-3d", "in another order", (_flaw("ids"),)),
    Planted("lds-bit", "lds-barrier", "LDS_SIZE", (_flaw("lds", 12, 3),)),
    Planted("scratch-shared", "scratch", "the scratch base", (_flaw("scratch"),)),
    Planted("scratch-slots", "scratch-per-se", "fewer scratch slots", (_flaw("slots", 2),)),
    Planted("wave64-halves", "wave64", "as two independent halves", (_flaw("wave64"),)),
    Planted("nothing-invalidated", "host-coherence", "shared by all waves", (_flaw("gcr", 31),)),
    Planted("l2-kept", "host-coherence", "shared by all waves", (_flaw("gcr", 16),)),
    Planted("vector-kept", "host-coherence", "vector caches keep", (_flaw("gcr", 4),)),
    Planted("scalar-kept", "host-coherence", "scalar caches keep", (_flaw("gcr", 2),)),
    Planted("code-kept", "code-cache", "GLI_INV", (_flaw("gcr", 1),)),
    Planted("copies-free", "order", "dependencies between queues",
            (_flaw("dependency", 1 << lib.AMDGPU_HW_IP_DMA),)),
    Planted("copies-overtake", "order", "copies out of order", (_flaw("overtake"),)),
    Planted("userptr-refused", "userptr", "no userptr",
            (_refuses("AMDGPU_GEM_USERPTR", errno.ENODEV),)),
    Planted("userptr-slow", "userptr-cost", "each page of listed host memory",
            (_flaw("userptr", 50_000),)),
    Planted("prime-refused", "prime-self", "export or import is refused",
            (_refuses("PRIME_HANDLE_TO_FD", errno.EOPNOTSUPP),)),
    Planted("code-in-vram", "code-placement", "through the BAR", (_flaw("code"),)),
    Planted("clock-drifts", "clock-drift", "run at gpu_counter_freq", (_flaw("drift", 20000),)),
    Planted("rings-dead", "reset-canary", "left the ring dead",
            (_flaw("reset", lib.AMDGPU_HW_IP_COMPUTE, 0xF),)),
    Planted("no-recovery", "reset-canary", "did not come back", (_flaw("recovery"),)),
)  # fmt: skip

PLANTED: dict[str, Planted] = {planted.name: planted for planted in _ALL}
