"""How good the planner's choice is on a network: figures for benchmarks/mesh.py and tests."""

from __future__ import annotations

from sparkle_drv.mesh.collective.choose import all_reduces, plan_all_reduce
from sparkle_drv.mesh.collective.fluid import predicted_s
from sparkle_drv.mesh.links.network import Network


def all_reduce_s(network: Network, nbytes: int) -> float:
    """Predicted seconds of the plan for float32."""
    return plan_all_reduce(network, nbytes, 4).predicted_s


def all_reduce_reached(network: Network, nbytes: int) -> float:
    """The lower bound by predicted seconds: 1 is as good as can be."""
    plan = plan_all_reduce(network, nbytes, 4)
    return plan.bound_s / plan.predicted_s


def all_reduce_over_best(network: Network, nbytes: int) -> float:
    """Predicted seconds by those of the best algorithm tried alone."""
    alone = (predicted_s(program, network) for _, program in all_reduces(network, nbytes, 4))
    return all_reduce_s(network, nbytes) / min(alone)
