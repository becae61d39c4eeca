"""Memory of operands and results: staging to a device and back, constants, packed weights.

staging.py has Stage, by which one call's operands get to a device and its result back. constant.py
has what keeps weights on a device, weights.py copies and packs them, recycled.py keeps the memory
of former results, foreign.py takes arrays of other libraries. Nothing here knows one operation.
calls, the operations and sched call it.
"""
