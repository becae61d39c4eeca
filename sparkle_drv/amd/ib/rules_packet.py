"""Lint rules about one packet: whether it is known, allowed here, and has the right bits."""

from __future__ import annotations

from collections.abc import Iterator

from sparkle_drv.amd.tables import regs
from sparkle_drv.amd.tables.bits import GFX

from .rule import ERROR, NOTE, WARNING, LintJob, Said, rule
from .run import call
from .shape import by_name
from .state import is_dispatch, written

CS_PARTIAL_FLUSH, ITS_INDEX = 7, 4


@rule("unknown-packet", ERROR, "3.1, 3.2")
def unknown_packet(job: LintJob) -> Iterator[Said]:
    """Every packet must be declared by a table for this generation and queue."""
    for step in job.steps:
        if step.packet.cls is None and step.packet.dwords[0] != 0x80000000:
            dword = step.packet.dwords[0]
            opcode = dword >> 8 & 0xFF
            others = [
                f"{c.NAME} of {ip} queues"
                for ip in ("gfx", "compute")
                for c in by_name(step.ib.gfx, ip).values()
                if dword >> 30 == 3 and ip != step.ib.ip and getattr(c, "OPCODE", -1) == opcode
            ]
            more = f" ({others[0]})" if others and step.ib.ip != "sdma" else ""
            yield step, step.packet.error + more


@rule("type2", WARNING, "3.1")
def type2(job: LintJob) -> Iterator[Said]:
    """The type 2 filler 0x80000000 must not be used on gfx10 and later, whose NOP is 0xffff1000."""
    for step in job.steps:
        if step.packet.cls is None and step.packet.dwords[0] == 0x80000000 and step.ib.gfx >= 10:
            yield step, "type 2 filler; expected NOP (0xffff1000)"


@rule("register-generation", ERROR, "4, 4.3")
def register_generation(job: LintJob) -> Iterator[Said]:
    """A SET packet must write only registers that this generation has, at offsets that a table
    declares.
    """
    for step in job.steps:
        for write in written(step):
            if write.register is not None:
                continue
            found = {g: regs.at(write.space, write.offset, g) for g in GFX}
            others = [f"{register.name} of gfx{g}" for g, register in found.items() if register]
            more = f"it is {' and '.join(others)}" if others else "no table declares it"
            yield step, f"gfx{write.gfx} has no register at {write.name}: {more}"


@rule("register-kernel", ERROR, "4, 4.3")
def register_kernel(job: LintJob) -> Iterator[Said]:
    """User IBs must not write some registers. RELAUNCH and wave restore belong to the kernel
    driver; on gfx10.3 they have the addresses of gfx11's STATIC_THREAD_MGMT_SE4 to SE7. A write of
    DISPATCH_INITIATOR launches a dispatch.
    """
    for step in job.steps:
        for write in written(step):
            if write.register is not None and not write.register.user:
                yield step, f"users may not write {write.name} on gfx{write.gfx}"


@rule("register-bits", ERROR, "4.1")
def register_bits(job: LintJob) -> Iterator[Said]:
    """A value must have only bits that this generation declares for the register."""
    for step in job.steps:
        for write in written(step):
            if write.register is None:
                continue
            if odd := write.value & ~write.register.word.allowed(write.gfx):
                yield (
                    step,
                    f"{write.name}={write.value:#x}: gfx{write.gfx} declares no bits {odd:#x}",
                )


@rule("glm-pair", ERROR, "3.4")
def glm_pair(job: LintJob) -> Iterator[Said]:
    """In ACQUIRE_MEM and RELEASE_MEM, GLM_WB must come together with GLM_INV."""
    for step in job.steps:
        for word in ("gcr", "event"):
            fields = step.packet.fields.get(word)
            if isinstance(fields, dict) and fields.get("glm_wb") and not fields.get("glm_inv"):
                yield step, f"{step.name} has {word}.glm_wb without glm_inv"


@rule("event-index", ERROR, "3.3, 3.5")
def event_index(job: LintJob) -> Iterator[Said]:
    """CS_PARTIAL_FLUSH must have event index 4, RELEASE_MEM event index 5 (end of pipe) or 6
    (done).
    """
    for step in job.steps:
        event = step.packet.fields.get("event", {})
        if step.name == "EVENT_WRITE":
            if event["type"] == CS_PARTIAL_FLUSH and event["index"] != ITS_INDEX:
                yield step, f"CS_PARTIAL_FLUSH with index {event['index']}, expected {ITS_INDEX}"
        elif step.name.startswith("RELEASE_MEM") and event["index"] not in (5, 6):
            yield step, f"{step.name} with event index {event['index']}, expected 5 or 6"


@rule("ib-valid", ERROR, "3.3")
def ib_valid(job: LintJob) -> Iterator[Said]:
    """On a compute queue INDIRECT_BUFFER must have its VALID bit and a size."""
    for step in job.steps:
        if step.name != "INDIRECT_BUFFER":
            continue
        control = step.packet.fields["control"]
        if step.ib.ip == "compute" and not control["valid"]:
            yield step, "INDIRECT_BUFFER without control.valid on a compute queue"
        if not control["ndw"]:
            yield step, "INDIRECT_BUFFER with control.ndw=0"


@rule("ib-target", NOTE, "3.3")
def ib_target(job: LintJob) -> Iterator[Said]:
    """The IB that an INDIRECT_BUFFER calls should be among the IBs that are checked. Otherwise its
    packets are not checked.
    """
    for step in job.steps:
        target = call(step.packet)
        if target and step.problem:
            yield step, f"{step.name} to {target.va:#x} is not followed: {step.problem}"


@rule("shader-type", ERROR, "3.1")
def shader_type(job: LintJob) -> Iterator[Said]:
    """On a GFX queue the header of a dispatch must have the compute shader type."""
    for step in job.steps:
        if is_dispatch(step) and step.ib.ip == "gfx":
            header = step.packet.fields.get("header", {})
            if not header.get("shader_type"):
                yield step, f"{step.name} without header.shader_type on a GFX queue"


@rule("sdma-kernel", ERROR, "7")
def sdma_kernel(job: LintJob) -> Iterator[Said]:
    """A user's IB must not have SDMA's INDIRECT, TRAP and GCR_REQ, which belong to the kernel
    driver.
    """
    for step in job.steps:
        if step.ib.ip == "sdma" and step.name in ("INDIRECT", "TRAP", "GCR_REQ"):
            yield step, f"{step.name} in a user's IB"


@rule("sdma-fence", WARNING, "7")
def sdma_fence(job: LintJob) -> Iterator[Said]:
    """SDMA's FENCE must have MTYPE 3 (uncached) from gfx10 on."""
    for step in job.steps:
        if step.ib.ip == "sdma" and step.name == "FENCE" and step.ib.gfx >= 10:
            mtype = step.packet.fields.get("header", {}).get("mtype", 0)
            if mtype != 3:
                yield step, f"FENCE with header.mtype={mtype}, expected 3"
