"""RDNA code of map expressions, written without a compiler; emit.py is the entry.

Here: a program's graph, its instructions and registers, and the loads and stores around them. Not
here: the assembler's tables and the form of code objects (amd/), and the upload of code (the amdgpu
backend). codegen/kernels.py and tools/rdna_as.py call it.

    emit.py            the entry: from a program to a code object in memory
    graph.py           a map program as a graph; equal values are one node
    operations.py      the instructions of each operation: f32, i32, division, exp, log, tanh
    sin_cos_pow.py     the instructions of sin, cos and pow, with f64 inside
    number.py          constants and polynomials as operands
    instructions.py    instructions on virtual registers, and register allocation
    frame.py           arguments, loads, stores and the last group around the operations
    assemble.py        assembles these lines quickly, with isa/ as its source
"""
