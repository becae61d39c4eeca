"""Arrays that are not computed yet, and the operators that make them.

    pending_arrays.py  PendingArrays: the arrays of a device that are not computed yet
    operators.py       Operators: numpy's operators and methods for an Array; they call the provider
    provider.py        Provider: the interface by which operators compute, made by `ops/deferred`

An Array that is not computed yet has a Thunk instead of memory. Reading the Array runs its thunk.
Before work that writes to memory of the device, all thunks are run.
"""
