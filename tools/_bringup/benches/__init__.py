"""The open cards and devices on which rungs work: a class `Bench` for each family of devices.

A Bench holds one device, what is known about it, and the contexts of the present rung. amdgpu.py,
cuda.py and api.py have the classes. card.py opens an AMD card's render node, hw.py gives short
names to the raw layer, dump.py reads the state after a failure. The experiments are in rungs/.
Called by rungs/ and ladder/.
"""
