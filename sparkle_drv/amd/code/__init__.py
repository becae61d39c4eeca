"""Reads amdhsa code objects (ELF, metadata, kernel descriptor, arguments) and encodes a dispatch.

The backend's loader and codegen/rdna use it. Instructions are in isa/, register fields in tables/.

    codeobject.py    load: checks a code object, gives resources, image and arguments
    elf.py           segments, symbols and relocations, each offset checked
    image.py         lays segments out and relocates them
    metadata.py      the MessagePack note NT_AMDGPU_METADATA
    kernarg.py       offsets of explicit and hidden kernel arguments
    usersgprs.py     the values of a kernel's first scalar registers
    dispatch.py      the packets of one dispatch, and the beginning of an IB
"""
