"""Memory of operands and results: staging to a device and back, constants, packed weights.

recycled keeps the memory of former results. Nothing here knows one operation. calls, the
operations and sched call it.
"""
