"""The instruction sets of RDNA2 (gfx10.3) and RDNA3 (gfx11): assembler and disassembler.

`assembly.py` has the calls. gfx10.py and gfx11.py are generated from native/emu/isa/rdna*.isa.
codegen/rdna, tools/rdna_as.py and the tests use it. It knows no code object and no packet.
"""
