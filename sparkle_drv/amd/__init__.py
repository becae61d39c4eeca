"""AMD's command streams, machine code and kernel driver's ioctls, as data and text.

No device is needed. The package holds tables of packets and registers, the assembler, code objects,
streams as text, and recordings. The backend, codegen/rdna, tools/ and the tests use it. No code
here chooses what a device runs. Only kmd/ and record/ open a render node.
"""
