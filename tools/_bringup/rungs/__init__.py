"""The rungs: each file tests one thing that a driver or a device must do, lowest first.

node, memory, packets, sync, shader, share and hang are amdgpu's; cuda.py is the CUDA driver's;
api.py climbs the public API on any device. kernels.py assembles programs, patterns.py tests memory
by the CPU. Not here: what a failure means (causes/). Called by ladder/families.py and the mem
command.
"""
