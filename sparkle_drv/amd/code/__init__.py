"""amdhsa code objects: ELF, metadata, kernel descriptor, kernel arguments, and the dispatch of one.

The backend's loader and codegen/rdna use it. Instructions are in isa/, register fields in tables/.
"""
