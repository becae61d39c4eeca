"""amdgpu: the compilers' name for the chip, and the rule that gives the name."""

from __future__ import annotations

from _bringup.benches.amdgpu import Bench
from _bringup.results.rung import Rung, Wrong
from sparkle_drv.lowlevel import chips, raw, targets


def isa_name(b: Bench) -> str:
    gfx, device = b.ip("gfx"), b.device
    name = chips.target(gfx, device)
    unnumbered = raw.ffi.new("struct drm_amdgpu_info_hw_ip *", gfx)
    unnumbered.ip_discovery_version = 0
    by_family = chips.target(unnumbered[0], device)
    family = chips.words(unnumbered[0], device).partition(", no IP")[0]
    rule = f"{name} by {chips.words(gfx, device).partition(', no IP')[0]}"
    if gfx.ip_discovery_version and by_family not in ("", name):
        raise Wrong(
            f"expected one chip name, got two: {rule}, but {by_family} by family ({family})",
            two_names=True,
        )
    # Looks up two things, as the loader does: the number that compilers write for this name, and
    # the code objects that run on this chip.
    numbers = [mach for mach, known in targets.MACH.items() if known == name]
    if not numbers or targets.mach_name(numbers[0]) not in targets.accepted(name):
        raise Wrong(
            f"{rule}: expected a chip name that code objects can be compiled for, got {name}",
            no_mach=True,
        )
    if gfx.ip_discovery_version:
        rule += f", and by {family}" if by_family else f"; {family} is not in the table"
    return f"{rule}; loads code objects of {' and '.join(targets.accepted(name))}"


RUNGS = (
    Rung("isa-name", "the compiler's name of the chip, by one rule and by the other", isa_name,
         ("device",)),
)  # fmt: skip
