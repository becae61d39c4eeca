"""The checks of the conformance suite, one file for each duty of a device.

A check is a function that takes an open device, leaves the device as it was, and raises if the
device is wrong. No check knows a particular backend.

    base.py                                 how a check registers; seeds, guard bands, busy work
    kernels.py, problems.py                 each kernel of the manifest; its sizes and inputs
    arguments.py                            bad arguments are refused, and named
    launches.py, lists.py                   launch and prepare; command lists and patch
    fences.py, timeouts.py                  timelines and waits; waits that end without the work
    memory.py                               kinds of memory, views, mapping, copies, sharing
    closing.py                              objects closed in flight or twice, or never closed
    pipelines.py, threads.py                rings of slots; one device from many threads
"""
