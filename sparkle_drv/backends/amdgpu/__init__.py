"""The AMD backend: AMDGPU's kernel interface, PM4 and SDMA packets, and the shader ISA."""
