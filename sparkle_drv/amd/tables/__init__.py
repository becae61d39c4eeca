"""Declares packets and registers of AMD GPUs: PM4, SDMA, COMPUTE_*, chips and their targets.

`bits.py` has the classes of the declarations. tools/gen.py makes the C tables in native/gen/ from
the declarations. The backend, ib/ and code/ encode and decode by them. No code here opens
a device.

    bits.py           Field, Word, U64, Record: encode, decode, overlap checks
    regs.py           registers: addresses and fields, COMPUTE_PGM_RSRC1 to 3 among them
    granules.py       register granules of RSRC1 (VGPRs), LDS granule of RSRC2
    packet.py         shared by PM4 and SDMA: levels of hardware, walking a stream
    type3.py          the header of PM4 packets, their base class
    pm4.py            PM4 packets: DISPATCH_DIRECT, RELEASE_MEM, ACQUIRE_MEM, ...
    setreg.py         packets that write registers: SET_SH_REG, pairs, packed pairs
    values.py         enumerations in PM4 fields: events, data selects; the GCR word
    sdma.py           packets of the copy engines: copy, fill, fence, poll
    descriptors.py    the kernel descriptor, the scratch buffer's resource
    targets.py        EF_AMDGPU_MACH: the chips of a code object
    chips.py          the compiler's name (gfx1100) of the chip behind a render node
"""
