"""What an extent's text comes to: computed by native code, as for launches."""

from __future__ import annotations

import errno

from sparkle_drv._native import ffi, lib

from sparkle_drv.core.abi.signature import Arg, Signature


def value(text: str, integers: dict[str, int]) -> int:
    """For these arguments; ZeroDivisionError and OverflowError where it has no value."""
    args = [Arg("", "u8*", "r", extent=text), *(Arg(name, "u64") for name in integers)]
    signature, need = Signature(args), ffi.new("uint64_t *")
    block = signature.args_struct.pack(8, *integers.values()) + bytes(8)
    rc = lib.sp_signature_need(signature.native, 0, ffi.from_buffer(block), need)
    if rc:
        raise {-errno.EINVAL: ZeroDivisionError, -errno.EOVERFLOW: OverflowError}[rc](text)
    return int(need[0])
