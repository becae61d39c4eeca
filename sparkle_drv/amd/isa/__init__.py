"""The instruction sets of RDNA2 (gfx10.3) and RDNA3 (gfx11): assembler and disassembler.

`assembly.py` has the functions. gfx10.py and gfx11.py are generated from native/emu/isa/rdna*.isa.
codegen/rdna, tools/rdna_as.py and the tests use this package. Code objects are in code/, packets in
tables/.

    assembly.py            assemble, disassemble: labels, directives, whole texts
    scan.py                splits a line into mnemonic, operands and modifiers
    forms.py, parse.py     tries the encodings of a mnemonic; the operands of one encoding
    mods.py                modifiers: DPP, SDWA, op_sel, omod, offsets, cache bits
    operand.py             registers and constants by operand code
    imm.py, names.py       immediates with a syntax of their own (waitcnt, hwreg); their names
    print.py               an instruction as text
    codec.py               an instruction as dwords, to fields and back
    bus.py                 the limit of the constant bus
    formats.py             microcode formats: the bits of each field
    rows.py, table.py      reads a row of the tables; finds instructions by name or code
    gfx10.py, gfx11.py     the tables, generated
"""
