"""Memory of operands and results: staging to a device and back, constants, packed weights.

staging.py has Stage, which moves the operands of one call to a device and the result back.
constant.py keeps weights on a device; weights.py copies and packs them. recycled.py keeps the
memory of former results. foreign.py accepts arrays of other libraries. No file here depends on a
single operation. The folder calls/, the folders of the operations, and sched use this folder.
"""
