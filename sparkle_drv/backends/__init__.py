"""The contract of a device kind and what our backends share; one folder below for each backend.

base.py is the protocol that every backend implements. abilities.py is what a backend may do
beside it. native.py is the half of a queue that backends in native code share. machine.py and
cgroup.py tell what the host has, fixed.py the plans of kernels that are compiled beforehand. Not
here: policy, operations, checks of arguments. core calls it.
"""
