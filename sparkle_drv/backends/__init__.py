"""The contract of a device kind and what our backends share; one folder below for each backend.

base.py is the protocol that every backend implements. abilities.py is what a backend may do
beside it. native.py is the half of a queue that backends in native code share. machine.py has
threads, NUMA nodes and memory of the host, cgroup.py what cgroups grant of them, fixed.py the plans
of kernels that are compiled beforehand. rates.py keeps measured rates of devices, and says under
which name measurements of a device are kept. Not here: policy, operations, checks of arguments.
core calls it.
"""
