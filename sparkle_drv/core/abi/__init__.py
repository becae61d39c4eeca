"""What Python and C agree on, as bytes: element types, signatures, extents, packing, records.

Parses what a kernel takes and packs arguments and commands as native/include/sp_cmd.h has them.
Knows no Device, Queue or Buffer. core and plug-ins call it.
"""
