"""The protocol of a device kind and what our backends share; one folder below for each backend.

base.py is the protocol that every backend implements, abilities.py what it may add. native.py is
the queue half of backends in native code. machine.py describes threads, NUMA nodes and memory of
the host, cgroup.py what cgroups grant of them, fixed.py the plans of precompiled kernels. rates.py
keeps measured rates of devices, and defines the keys of kept measurements. Policy, operations and
checks of arguments are elsewhere. core calls it.
"""
