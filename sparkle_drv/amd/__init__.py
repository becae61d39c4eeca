"""AMD's command streams, machine code and kernel interface, as data and text. Needs no device.

Tables of packets and registers, the assembler, code objects, streams as text, recordings. The
backend, codegen/rdna, tools/ and the tests use them. Nothing here decides what runs. Only kmd/ and
record/ open a render node.
"""
