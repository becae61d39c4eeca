"""Lint rules about a dispatch and the values of registers at that dispatch."""

from __future__ import annotations

from collections.abc import Iterator

from sparkle_drv.amd.tables.granules import LDS_GRANULE, LDS_MOST, lds_units

from .rule import ERROR, WARNING, LintJob, Said, rule
from .state import IbEvent

GROUP_THREADS_MAX = 1024
WAVE32_VGPRS_MAX = 31  # largest value of the field VGPRS in a wave32, which means 256 registers
USER_SGPR_MAX = 16


def value(event: IbEvent, name: str) -> int:
    """Returns a register's value at the dispatch, or 0 if the job has not written the register."""
    write = event.state.get(f"COMPUTE_{name}")
    return write.value if write else 0


def bits(event: IbEvent, name: str, field: str) -> int:
    write = event.state.get(f"COMPUTE_{name}")
    return write.get(field) if write else 0


def wanted(event: IbEvent) -> list[str]:
    """Returns the names of the registers that this dispatch depends on, without COMPUTE_."""
    gfx, initiator = event.step.ib.gfx, event.step.packet.fields["initiator"]
    names = [f"NUM_THREAD_{axis}" for axis in "XYZ"]
    names += ["PGM_LO", "PGM_HI", "PGM_RSRC1", "PGM_RSRC2", "RESOURCE_LIMITS"]
    names += [f"STATIC_THREAD_MGMT_SE{n}" for n in range(8 if gfx >= 11 else 4)]
    if not initiator["FORCE_START_AT_000"]:
        names += [f"START_{axis}" for axis in "XYZ"]
    if gfx >= 10:
        names += ["PGM_RSRC3", *(f"USER_ACCUM_{n}" for n in range(4))]
    if gfx >= 11:
        names += ["DISPATCH_INTERLEAVE"]
    if initiator.get("TUNNEL_ENABLE"):
        names += ["DISPATCH_TUNNEL"]
    if bits(event, "PGM_RSRC2", "SCRATCH_EN"):
        names += ["TMPRING_SIZE"]
        names += ["DISPATCH_SCRATCH_BASE_LO", "DISPATCH_SCRATCH_BASE_HI"] if gfx >= 11 else []
    return names


@rule("register-missing", ERROR, "4.3")
def register_missing(job: LintJob) -> Iterator[Said]:
    """A job must program every register that its dispatches depend on, because registers keep the
    values of other processes' jobs.
    """
    for event in job.dispatches:
        missing = [n for n in wanted(event) if f"COMPUTE_{n}" not in event.state]
        if missing:
            yield (
                event.step,
                "not programmed by this job: " + ", ".join(f"COMPUTE_{name}" for name in missing),
            )


@rule("initiator", ERROR, "4.1, 4.2")
def initiator(job: LintJob) -> Iterator[Said]:
    """The initiator of a dispatch must have COMPUTE_SHADER_EN. Without it nothing runs."""
    for event in job.dispatches:
        if not event.step.packet.fields["initiator"]["COMPUTE_SHADER_EN"]:
            yield event.step, "initiator lacks COMPUTE_SHADER_EN: nothing would run"


@rule("group-size", ERROR, "4.1")
def group_size(job: LintJob) -> Iterator[Said]:
    """A group must have 1 to 1024 threads. With PARTIAL_TG_EN, the last group on each axis must
    have 1 thread up to the size of a full group.
    """
    for event in job.dispatches:
        if any(f"COMPUTE_NUM_THREAD_{axis}" not in event.state for axis in "XYZ"):
            continue
        full = [bits(event, f"NUM_THREAD_{axis}", "FULL") for axis in "XYZ"]
        threads = full[0] * full[1] * full[2]
        if not 1 <= threads <= GROUP_THREADS_MAX:
            size = " x ".join(map(str, full))
            yield event.step, f"{size} threads in a group, expected 1..{GROUP_THREADS_MAX}"
        if event.step.packet.fields["initiator"]["PARTIAL_TG_EN"]:
            for axis, most in zip("XYZ", full, strict=True):
                partial = bits(event, f"NUM_THREAD_{axis}", "PARTIAL")
                if not 1 <= partial <= most:
                    said = f"PARTIAL_TG_EN, and COMPUTE_NUM_THREAD_{axis}.PARTIAL is {partial}"
                    yield event.step, f"{said} of {most}"


@rule("priv", ERROR, "4.3")
def priv(job: LintJob) -> Iterator[Said]:
    """COMPUTE_PGM_RSRC1.PRIV must be 0 in user IBs."""
    for event in job.dispatches:
        if bits(event, "PGM_RSRC1", "PRIV"):
            yield event.step, "COMPUTE_PGM_RSRC1.PRIV is set"


@rule("lds-size", ERROR, "5.3")
def lds_size(job: LintJob) -> Iterator[Said]:
    """COMPUTE_PGM_RSRC2.LDS_SIZE counts units of 512 B and must be at most 128 (64 KiB). If the
    kernel's need is known, the field must match it. The descriptor's RSRC2 has 0 there; the driver
    fills in the size.
    """
    for event in job.dispatches:
        if "COMPUTE_PGM_RSRC2" not in event.state:
            continue
        size = bits(event, "PGM_RSRC2", "LDS_SIZE")
        if size * LDS_GRANULE > LDS_MOST:
            yield event.step, f"LDS_SIZE={size} is {size * LDS_GRANULE} bytes of {LDS_MOST}"
        if job.kernel.lds_bytes is not None:
            needs = lds_units(job.kernel.lds_bytes)
            if size != needs:
                yield (
                    event.step,
                    f"LDS_SIZE={size} ({size * LDS_GRANULE} bytes), and the kernel has "
                    f"{job.kernel.lds_bytes} bytes of LDS: expected {needs}",
                )


@rule("rsrc-descriptor", ERROR, "5.2, 5.3")
def rsrc_descriptor(job: LintJob) -> Iterator[Said]:
    """RSRC1 to RSRC3 must equal the kernel's descriptor, except for LDS_SIZE in RSRC2."""
    for event in job.dispatches:
        for name in ("rsrc1", "rsrc2", "rsrc3"):
            expected = getattr(job.kernel, name)
            write = event.state.get(f"COMPUTE_PGM_{name.upper()}")
            if expected is None or write is None or write.register is None:
                continue
            layout = write.register.word.layout(write.gfx)
            lds = layout["LDS_SIZE"].mask if "LDS_SIZE" in layout else 0
            if odd := (write.value ^ expected) & ~lds:
                fields = [k for k, f in layout.items() if f.mask & odd & ~lds]
                yield (
                    event.step,
                    f"{write.name} is {write.value:#x}, the descriptor has {expected:#x}: "
                    f"{', '.join(fields) or hex(odd)}",
                )


@rule("rsrc-limits", ERROR, "4.1, 5.2, 5.6")
def rsrc_limits(job: LintJob) -> Iterator[Said]:
    """RSRC fields must not have values that no program can have: VGPRS beyond 256 registers in a
    wave32, more user SGPRs than USER_DATA registers, TIDIG_COMP_CNT 3.
    """
    for event in job.dispatches:
        vgprs = bits(event, "PGM_RSRC1", "VGPRS")
        if event.step.packet.fields["initiator"].get("CS_W32_EN") and vgprs > WAVE32_VGPRS_MAX:
            yield event.step, f"RSRC1.VGPRS={vgprs} exceeds 256 registers of a wave32"
        if (count := bits(event, "PGM_RSRC2", "USER_SGPR")) > USER_SGPR_MAX:
            yield event.step, f"RSRC2.USER_SGPR={count}: expected at most {USER_SGPR_MAX}"
        if bits(event, "PGM_RSRC2", "TIDIG_COMP_CNT") == 3:
            yield event.step, "RSRC2.TIDIG_COMP_CNT is 3"


@rule("scratch", ERROR, "5.5")
def scratch(job: LintJob) -> Iterator[Said]:
    """A kernel with SCRATCH_EN needs a number of waves and a wave size in TMPRING_SIZE."""
    for event in job.dispatches:
        if bits(event, "PGM_RSRC2", "SCRATCH_EN") and "COMPUTE_TMPRING_SIZE" in event.state:
            waves = bits(event, "TMPRING_SIZE", "WAVES")
            if not waves or not bits(event, "TMPRING_SIZE", "WAVESIZE"):
                size = value(event, "TMPRING_SIZE")
                yield event.step, f"RSRC2.SCRATCH_EN, and COMPUTE_TMPRING_SIZE is {size:#x}"


@rule("no-cu", ERROR, "4.1, 4.3")
def no_cu(job: LintJob) -> Iterator[Said]:
    """At least one STATIC_THREAD_MGMT register must enable a compute unit. Otherwise the dispatch
    never ends.
    """
    for event in job.dispatches:
        masks = [w.value for n, w in event.state.items() if "STATIC_THREAD_MGMT_SE" in n]
        if masks and not any(masks):
            yield event.step, "every COMPUTE_STATIC_THREAD_MGMT is 0: no compute unit is enabled"


@rule("interleave", ERROR, "4.1")
def interleave(job: LintJob) -> Iterator[Said]:
    """DISPATCH_INTERLEAVE must be 0, 64, 128, 256 or 512."""
    for event in job.dispatches:
        size = bits(event, "DISPATCH_INTERLEAVE", "INTERLEAVE")
        if size not in (0, 64, 128, 256, 512):
            yield (
                event.step,
                f"COMPUTE_DISPATCH_INTERLEAVE={size}, expected 0, 64, 128, 256 or 512",
            )


@rule("tgid", WARNING, "5.2")
def tgid(job: LintJob) -> Iterator[Said]:
    """A dispatch with several groups along an axis should give the program its group id of that
    axis. Otherwise all these groups do the same work.
    """
    for event in job.dispatches:
        if event.step.name != "DISPATCH_DIRECT" or "COMPUTE_PGM_RSRC2" not in event.state:
            continue
        for axis in "XYZ":
            groups = event.step.packet.fields[f"dim_{axis.lower()}"]
            # On gfx12 the program always gets its group ids, in TTMP registers.
            given = event.step.ib.gfx >= 12 or bits(event, "PGM_RSRC2", f"TGID_{axis}_EN")
            if groups > 1 and not given:
                yield event.step, f"dim_{axis.lower()}={groups}, and RSRC2 has no TGID_{axis}_EN"
