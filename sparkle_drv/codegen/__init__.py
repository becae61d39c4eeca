"""Generates kernels at run time: text or machine code from tile plans and expressions.

kernels.py chooses the language of a device; each language has a folder. This folder does not use
drivers, queues or memory. core/device.py calls kernels.py. A backend gets the generated kernel in
KernelSpec.made.
"""
