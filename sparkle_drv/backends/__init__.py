"""The protocol of a device kind, and what our backends share. Each backend has a folder below.

base.py is the protocol that every backend implements. abilities.py has optional members. native.py
is the queue part of backends in native code. machine.py describes threads, NUMA nodes and memory of
the host. cgroup.py reads how much of these the cgroups grant. precompiled_plans.py checks plans for
precompiled kernels. rates.py keeps measured rates of devices, and defines the keys of kept
measurements.

Policy, operations and checks of arguments are elsewhere. core calls this package.
"""
