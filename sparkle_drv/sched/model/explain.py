"""What plans have in common as text: candidates, times, seconds."""

from __future__ import annotations

from .work import Candidate, Cost, Measured

LOOKS = ", to learn about a device that was idle for long"
_STEPS = (
    ("compute", "compute_s"), ("in", "in_s"), ("out", "out_s"), ("convert", "convert_s"),
)  # fmt: skip
_PARTS = (*_STEPS, ("queue", "wait_s"), ("risk", "risk_s"))


def measured(took: Measured, cost: Cost) -> str:
    """Describes the times of a run beside the predicted ones: the total, then each part."""
    parts = []
    for name, field in _STEPS:
        value = getattr(took, field)
        found = "not measured" if value is None else seconds(value)
        parts.append(f"{name} {found} / {seconds(getattr(cost, field))}")
    told = [field for _, field in _STEPS if getattr(took, field) is not None]
    predicted = sum(getattr(cost, field) for field in told or [field for _, field in _STEPS])
    times = f", {took.total_s / predicted:.2f} times what was predicted" if predicted else ""
    return (
        f"measured {seconds(took.total_s)}{times}; measured / predicted: {', '.join(parts)}; "
        "sync is part of compute"
    )


def candidate(device_cost: Candidate, chosen: bool) -> str:
    """Describes one candidate device: what it would cost, and why it was not chosen."""
    mark = "->" if chosen else "  "
    if device_cost.cost is None:
        return f"{mark} {device_cost.device}: cannot: {device_cost.why}"
    why = "".join(f"; {text}" for text in (device_cost.why, device_cost.basis) if text)
    return f"{mark} {device_cost.device}: {_cost(device_cost.cost)}{why}"


def _cost(cost: Cost) -> str:
    parts = [(name, getattr(cost, field)) for name, field in _PARTS]
    shown = ", ".join(f"{name} {seconds(value)}" for name, value in parts if value > 0)
    return f"{seconds(cost.total_s)} ({shown})"


def seconds(value: float) -> str:
    """Returns seconds as text with a unit: "12.3 us"."""
    if not value:
        return "0 s"
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value * 1e9:.3g} ns"
