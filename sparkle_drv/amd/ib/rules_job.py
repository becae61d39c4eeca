"""Lint rules about a job: cache invalidation at its start, waiting at its end, padding."""

from __future__ import annotations

from collections.abc import Iterator

from sparkle_drv.amd.tables.bits import canonical

from .rule import NOTE, WARNING, LintJob, Said, rule
from .rules_packet import CS_PARTIAL_FLUSH
from .run import PacketStep
from .state import is_dispatch

INVALIDATES = ("gli_inv", "glk_inv", "glv_inv", "gl1_inv")
PWS = -1  # stands for an address: the counter of the pixel wait sync
# The size of an IB is a multiple of this many dwords (32 bytes). INFO reports this multiple for GFX
# and COMPUTE. The kernel driver pads its own SDMA IBs to the same multiple.
PAD = 8


def acquires(step: PacketStep) -> bool:
    """Returns whether a packet invalidates the caches near the shader cores."""
    if step.name == "ACQUIRE_MEM_GFX9":
        return bool(step.packet.fields["coher_cntl"])
    return step.name == "ACQUIRE_MEM" and any(step.packet.fields["gcr"].get(k) for k in INVALIDATES)


class _DispatchTracker:
    """Follows the packets of a job to find the dispatch that may still be running."""

    def __init__(self) -> None:
        self.dispatch: PacketStep | None = None
        self.released: int | None = None  # address that a RELEASE_MEM after the dispatch writes

    def see(self, step: PacketStep) -> None:
        if is_dispatch(step):
            self.dispatch, self.released = step, None
        elif step.name == "EVENT_WRITE":
            if step.packet.fields["event"]["type"] == CS_PARTIAL_FLUSH:
                self.dispatch = None
        elif step.name.startswith("RELEASE_MEM"):
            self.released = canonical(step.packet.fields["addr"])
            if step.packet.fields["event"].get("pws_enable"):
                # An ACQUIRE_MEM with pws_ena waits for this packet's counter, not for an address.
                self.released = PWS
        elif step.name == "ACQUIRE_MEM" and step.packet.fields["poll"].get("pws_ena"):
            self.dispatch = None if self.released == PWS else self.dispatch
        elif step.name.startswith("WAIT_REG_MEM"):
            there = canonical(step.packet.fields["addr"])
            self.dispatch = None if there == self.released else self.dispatch


@rule("acquire-missing", WARNING, "6.1, 6.2")
def acquire_missing(job: LintJob) -> Iterator[Said]:
    """A job must begin with an ACQUIRE_MEM that invalidates caches, because nothing invalidates
    them at the end of the previous job. Disable this rule for jobs that are submitted with
    EMIT_MEM_SYNC.
    """
    acquired = False
    for step in job.steps:
        acquired = acquired or acquires(step)
        if is_dispatch(step) and not acquired:
            yield step, "no ACQUIRE_MEM that invalidates caches before the first dispatch"
            return


@rule("acquire-code", NOTE, "6.2")
def acquire_code(job: LintJob) -> Iterator[Said]:
    """A newly uploaded program needs an ACQUIRE_MEM with GLI_INV, for the instruction caches,
    before it runs.
    """
    acquiring: list[PacketStep] = []
    for step in job.steps:
        if step.name == "ACQUIRE_MEM":
            acquiring.append(step)
        if is_dispatch(step):
            if acquiring and not any(s.packet.fields["gcr"]["gli_inv"] for s in acquiring):
                yield acquiring[0], "no ACQUIRE_MEM before the first dispatch has gcr.gli_inv"
            return


@rule("overlap", NOTE, "6.2")
def overlap(job: LintJob) -> Iterator[Said]:
    """Two dispatches without a wait and an ACQUIRE_MEM between them run at the same time. That is
    right only if the second does not read what the first writes.
    """
    pending, acquired = _DispatchTracker(), True
    for step in job.steps:
        if is_dispatch(step):
            if pending.dispatch is not None:
                yield step, f"may run together with the dispatch at {pending.dispatch.where}"
            elif not acquired:
                yield step, "no ACQUIRE_MEM since the last dispatch"
            acquired = False
        elif acquires(step):
            acquired = True
        pending.see(step)


@rule("not-idle", WARNING, "1.8, 3.6")
def not_idle(job: LintJob) -> Iterator[Said]:
    """A job must end with CS_PARTIAL_FLUSH, or with RELEASE_MEM and a WAIT_REG_MEM on the address
    that RELEASE_MEM writes. The command processor does not wait for a job's waves before it starts
    the next job.
    """
    pending = _DispatchTracker()
    for step in job.steps:
        pending.see(step)
    if pending.dispatch is not None:
        why = "RELEASE_MEM is not waited for" if pending.released is not None else "nothing waits"
        yield pending.dispatch, f"may still run at the end of the job: {why}"


@rule("padding", WARNING, "3.3, 7")
def padding(job: LintJob) -> Iterator[Said]:
    """Submitted IBs must be padded with NOP to a multiple of 8 dwords (32 bytes)."""
    for number in job.submitted:
        ib = job.ibs[number]
        if ib.complete and (ib.extra or len(ib.dwords) % PAD):
            size = 4 * len(ib.dwords) + len(ib.extra)
            yield number, f"{size} bytes are no multiple of {4 * PAD}"


@rule("empty", WARNING, "1.8")
def empty(job: LintJob) -> Iterator[Said]:
    """An IB must have at least one dword."""
    for number, ib in enumerate(job.ibs):
        if not ib.dwords and ib.complete:
            yield number, "the IB is empty"
