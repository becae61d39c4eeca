"""Generates kernels at run time: text or machine code from tile plans and expressions.

Here: which language a device takes (kernels.py), and a folder for each language. Not here: drivers,
queues and memory. core/device.py calls kernels.py. A backend gets the result in KernelSpec.made.
"""
