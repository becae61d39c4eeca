<<<<<<< HEAD
"""The AMD backend: AMDGPU's kernel interface, PM4 and SDMA packets, and the shader ISA."""
=======
"""AMD GPUs through the kernel's DRM interface. So far: packets and registers, declared as data."""
>>>>>>> pm4
