"""Arrays that are not computed yet, and the operators that make them.

    pending.py      Pending: the arrays of a device that still wait to be computed, and their order
    operators.py    Operators: what numpy's users expect of an Array; each asks the provider
    provider.py     Provider: how an operator computes. `ops/deferred` provides it; core knows none

An Array that waits has a Thunk in place of its memory. Whatever reads it runs the thunk, and
whatever writes to memory of the device runs all of them first.
"""
