"""RDNA code of map expressions, generated without a compiler; emit.py is the entry.

This folder has a program's graph, its instructions and registers, and the loads and stores around
them. amd/ has the assembler's tables and the form of code objects; the amdgpu backend uploads code.
codegen/kernels.py and tools/rdna_as.py call this folder.

    emit.py            the entry: from a program to a code object in memory
    graph.py           a map program as a graph, which merges equal values
    operations.py      the instructions of each operation: f32, i32, division, exp, log, tanh
    sin_cos_pow.py     the instructions of sin, cos and pow, with f64 inside
    number.py          constants and polynomials as operands
    instructions.py    instructions on virtual registers, and register allocation
    frame.py           arguments, loads and stores around the operations; the last group
    assemble.py        assembles these lines quickly, by the tables of isa/
"""
