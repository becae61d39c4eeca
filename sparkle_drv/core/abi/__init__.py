"""What Python and C agree on, as bytes: element types, signatures, extents, records.

Parses what a kernel takes, and writes signatures and commands as native/include/sp_cmd.h has them.
Knows no Device, Queue or Buffer. core and plug-ins call it.

    signature.py    types of arguments, their sizes, offsets and struct letters
    extent.py       the sizes that pointers must reach, as expressions over arguments
    elements.py     which array dtypes fit which pointer, as bits
    records.py      the command records of sp_cmd.h: encode, split, decode
"""
