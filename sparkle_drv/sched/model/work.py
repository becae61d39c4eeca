"""What is to be done and where it is done: plain data that planner, runner and trace share."""

from __future__ import annotations

from dataclasses import dataclass, field

from sparkle_drv.mesh.links.network import HOST


@dataclass(frozen=True)
class Operand:
    """One input of some work."""

    nbytes: int
    """Bytes that must be where the work is done."""
    places: frozenset[str] = frozenset({HOST})
    """URIs of the devices that have a valid copy; HOST is one of them for a numpy array."""
    convert: str = ""
    """The class of the change of layout that it goes through, there, before the work can begin;
    "": it is as it should be."""
    convert_nbytes: int = 0
    """Bytes of what that makes."""


@dataclass(frozen=True)
class Work:
    """One call of one operation."""

    op: str
    """Operation and dtype, "gemm_f32": what has one speed on one device."""
    size: float
    """What its time grows with: floating-point operations for products, bytes for maps."""
    operands: tuple[Operand, ...] = ()
    """The inputs."""
    out_nbytes: int = 0
    """Bytes of the result."""
    out_place: str = ""
    """Where the result must be: HOST for numpy, a URI, or "": wherever it comes about."""


@dataclass(frozen=True)
class Cost:
    """Predicted seconds of some work on one device, by what they go to."""

    compute_s: float
    """The operation itself."""
    in_s: float = 0.0
    """Operands on their way to the device."""
    out_s: float = 0.0
    """The result on its way to where it must be."""
    convert_s: float = 0.0
    """Changes of operands' layouts, on the device itself."""
    sync_s: float = 0.0
    """Waiting for the end and telling of it, beyond what `compute_s` contains: that is learnt from
    work that was waited for."""
    wait_s: float = 0.0
    """Until what is queued before it is done, on this device or on one that shares with it."""
    risk_s: float = 0.0
    """What the device's failures so far cost on average."""

    @property
    def total_s(self) -> float:
        """All of it: what candidates are compared by."""
        return (
            self.compute_s + self.in_s + self.out_s + self.convert_s + self.sync_s + self.wait_s
            + self.risk_s
        )  # fmt: skip


@dataclass(frozen=True)
class Measured:
    """Seconds that a run took, and what they went to: the parts of a Cost, one after another. None:
    this part was not measured; nor was any where a call of numpy arrays was measured as a whole.
    """

    total_s: float
    """Of the parts, or of the whole; not of what was queued before it."""
    compute_s: float | None = None
    """The operation itself and the wait for its end: sync is in it, as in the Cost's."""
    in_s: float | None = None
    """Operands on their way to the device; 0: they were there, or the memory is the host's."""
    out_s: float | None = None
    """The result on its way to the host; 0: it stays where it came about."""
    convert_s: float | None = None
    """Changes of operands' layouts, on the device itself."""

    @classmethod
    def of(
        cls, compute_s: float, in_s: float = 0.0, out_s: float = 0.0, convert_s: float = 0.0
    ) -> Measured:
        """A run of which every part was measured."""
        total = compute_s + in_s + out_s + convert_s
        return cls(total, compute_s, in_s, out_s, convert_s)


@dataclass(frozen=True)
class Candidate:
    """One device that was considered."""

    device: str
    """Its URI."""
    cost: Cost | None
    """None: it cannot do this work."""
    why: str = ""
    """Why it was not chosen; "" for the chosen one."""


@dataclass(frozen=True)
class Share:
    """A part of the work on one device: rows [begin, end) of the result, in thousandths when the
    work is not cut by rows. One share is the whole.
    """

    device: str
    begin: int
    end: int


@dataclass(frozen=True)
class Plan:
    """What was decided, and from what."""

    work: Work
    shares: tuple[Share, ...]
    """Who does which part."""
    candidates: tuple[Candidate, ...]
    """Every device that was considered, the chosen one first, then by predicted time."""
    explores: bool = False
    """Was a device taken that is not predicted to be best, to learn about it?"""
    measured: Measured | None = field(default=None, compare=False)
    """What its last measured run took; None: there was none yet. Nothing is decided by it: it is
    said where somebody asks (`Context.last_plan`), and stands in no journal."""

    @property
    def device(self) -> str:
        """The device of the first share."""
        return self.shares[0].device

    @property
    def predicted_s(self) -> float:
        """Seconds that the chosen candidate was predicted to take."""
        cost = self.candidates[0].cost
        return cost.total_s if cost else 0.0

    @property
    def extra_s(self) -> float:
        """Seconds predicted beyond the fastest candidate: 0 unless the plan explores."""
        totals = [c.cost.total_s for c in self.candidates if c.cost]
        return self.predicted_s - min(totals) if totals else 0.0
