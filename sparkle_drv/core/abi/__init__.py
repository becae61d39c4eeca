"""The bytes that Python and C agree on: element types, signatures, extents, records.

This folder parses the types of kernel arguments. It writes signatures and commands in the form that
native/include/sp_cmd.h declares. It does not use Device, Queue or Buffer. core and plug-ins call
it.

    signature.py    types of arguments, their sizes, offsets and struct letters
    extent.py       how many elements a pointer must reach, as expressions over arguments
    elements.py     which array dtypes fit which pointer, as bits
    records.py      the command records of sp_cmd.h: encode, split, decode
"""
