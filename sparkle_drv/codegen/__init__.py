"""Generates kernels at run time: text or machine code from tile plans and expressions.

kernels.py chooses the language of a device; each language has a folder. Drivers, queues and memory
are elsewhere. core/device.py calls kernels.py. A backend gets the result in KernelSpec.made.
"""
