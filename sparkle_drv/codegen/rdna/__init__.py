"""RDNA code of map expressions, written without a compiler; emit.py is the entry.

Here: a program's graph, its instructions and registers, and the loads and stores around them. Not
here: the assembler's tables and the form of code objects (amd/), and the upload of code (the amdgpu
backend). codegen/kernels.py and tools/rdna_as.py call it.
"""
