"""Arrays that are not computed yet, and the operators that make them.

    waiting_arrays.py  WaitingArrays: the arrays that are not computed yet, and their lock
    pending_arrays.py  PendingArrays: how a device orders expressions and all other work
    operators.py       Operators: numpy's operators and methods for an Array; they call the provider
    provider.py        Provider: the interface by which operators compute, made by `ops/deferred`

An Array that is not computed yet has a Thunk instead of memory. Reading the Array runs its thunk.
Before a device takes other work, all thunks of that device are run.
"""
