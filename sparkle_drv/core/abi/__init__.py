"""The bytes that Python and C agree on: element types, signatures, extents, records.

This folder parses the arguments of kernels, and writes signatures and commands as
native/include/sp_cmd.h declares them. It does not use Device, Queue or Buffer. core and plug-ins
call it.

    signature.py    types of arguments, their sizes, offsets and struct letters
    extent.py       how many elements a pointer must reach, as expressions over arguments
    elements.py     which array dtypes fit which pointer, as bits
    records.py      the command records of sp_cmd.h: encode, split, decode
"""
