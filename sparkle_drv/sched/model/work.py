"""Work, its cost and its times: plain data that planner, executor and trace share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sparkle_drv.mesh.links.network import HOST


@dataclass(frozen=True)
class Operand:
    """One input of a Work."""

    nbytes: int
    """Bytes that the work needs on its device."""
    places: frozenset[str] = frozenset({HOST})
    """URIs of the devices that have a valid copy. For a numpy array, HOST is among them."""
    convert: str = ""
    """The class of the change of layout that the device makes before the work; "" if none."""
    convert_nbytes: int = 0
    """Bytes of the operand after the change of layout."""


@dataclass(frozen=True)
class Work:
    """One call of one operation."""

    op: str
    """Class of work, such as "gemm_f32". A class has one speed on a device."""
    size: float
    """The quantity that the time grows with: operations for products, bytes for maps."""
    operands: tuple[Operand, ...] = ()
    """The inputs."""
    out_nbytes: int = 0
    """Bytes of the result."""
    out_place: str = ""
    """Where the result must be: HOST for numpy, a URI, or "" for the device that makes it."""
    lacking: Mapping[str, str] = field(default_factory=dict)
    """Why a device has no kernel for this call, by URI. It may have one for others of the class."""


@dataclass(frozen=True)
class Cost:
    """Predicted seconds of some work on one device, split into parts."""

    compute_s: float
    """Seconds of the operation and the wait for its end."""
    in_s: float = 0.0
    """Seconds of moving operands to the device."""
    out_s: float = 0.0
    """Seconds of moving the result to where it must be."""
    convert_s: float = 0.0
    """Seconds of changing operands' layouts, on the device itself."""
    wait_s: float = 0.0
    """Seconds of queued work ahead, on this device or on a device that shares a resource
    with it."""
    risk_s: float = 0.0
    """Mean seconds that failures cost, from the device's failures so far."""

    @property
    def total_s(self) -> float:
        """The sum of all fields, in seconds. Candidates are compared by it."""
        return self.compute_s + self.in_s + self.out_s + self.convert_s + self.wait_s + self.risk_s


@dataclass(frozen=True)
class Measured:
    """Seconds of a run and of its parts, as in a Cost. A part that was not measured is None. If a
    call of numpy arrays was timed as a whole, all parts are None.
    """

    total_s: float
    """The sum of the parts, or the time of the whole call; without queued work ahead."""
    compute_s: float | None = None
    """Seconds of the operation and the wait for its end."""
    in_s: float | None = None
    """Seconds of moving operands to the device; 0 if they were there, or if the memory is the
    host's."""
    out_s: float | None = None
    """Seconds of moving the result to the host; 0 if the result stays on the device."""
    convert_s: float | None = None
    """Seconds of changing operands' layouts, on the device itself."""

    @classmethod
    def of(
        cls, compute_s: float, in_s: float = 0.0, out_s: float = 0.0, convert_s: float = 0.0
    ) -> Measured:
        """Returns the Measured of a run for which each of these times was measured."""
        total = compute_s + in_s + out_s + convert_s
        return cls(total, compute_s, in_s, out_s, convert_s)


@dataclass(frozen=True)
class Candidate:
    """One device that was considered for a call."""

    device: str
    """URI of the device."""
    cost: Cost | None
    """Predicted cost; None if the device cannot do this work."""
    why: str = ""
    """Why the device was not chosen; "" for the chosen one."""
    basis: str = ""
    """How the compute time was predicted, if no probe measured this class of work; otherwise ""."""
