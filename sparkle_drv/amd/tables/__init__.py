"""Packets and registers of AMD GPUs, declared once: PM4, SDMA, COMPUTE_*, chips and their targets.

`bits.py` is the language of the declarations. tools/gen.py makes the C tables in native/gen/ from
them; the backend, ib/ and code/ encode and decode by them. No table knows a stream or a device.
"""
