"""User SGPRs: the values of s0, s1, ... when a kernel starts. The hardware takes them from
COMPUTE_USER_DATA_*.

The values follow the order of the descriptor's property bits (ROCr amd_hsa_kernel_code.h, and
clang's output). The count in RSRC2 may be larger: on gfx11.0 the compiler raises it, so that user
and system SGPRs together are 16. The additional SGPRs have no meaning and need not be written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sparkle_drv.amd.tables.bits import U32_MAX
from sparkle_drv.amd.tables.descriptors import ScratchResource
from sparkle_drv.errors import ImageError

# Each entry: a property of the kernel descriptor, the number of user SGPRs that it takes, and
# whether a driver without HSA queues can provide their value.
_ORDER = (
    ("private_segment_buffer", 4, True),
    ("dispatch_ptr", 2, False),
    ("queue_ptr", 2, False),
    ("kernarg_segment_ptr", 2, True),
    ("dispatch_id", 2, False),
    ("flat_scratch_init", 2, True),
    ("private_segment_size", 1, True),
)
MOST = 16


@dataclass(frozen=True)
class UserSgprs:
    """Which user SGPRs hold which value. `first` has, by the name of a value, the number of its
    first SGPR. `count` is the number of all user SGPRs.
    """

    first: Mapping[str, int]
    count: int

    def values(
        self,
        *,
        kernarg: int,
        scratch: int = 0,
        scratch_lane_nbytes: int = 0,
        wave: int = 32,
        gfx: float = 11,
    ) -> list[int]:
        """Returns the dwords for COMPUTE_USER_DATA_0 and its successors.

        `kernarg` and `scratch` are addresses of 48 bits or sign-extended ones. `scratch` is 0 for a
        kernel without scratch memory.
        """
        out: list[int] = []
        for name in self.first:
            if name == "private_segment_buffer":
                out += scratch_resource(scratch, wave, gfx)
            elif name == "private_segment_size":
                out.append(scratch_lane_nbytes)
            else:
                va = kernarg if name == "kernarg_segment_ptr" else scratch
                out += [va & U32_MAX, va >> 32 & U32_MAX]
        return out


def lay_out(properties: Mapping[str, int], user_sgpr: int) -> UserSgprs:
    """Assigns user SGPRs to the values that a kernel descriptor requests by its properties. Raises
    ImageError for a property that only an HSA queue can serve, or if RSRC2.USER_SGPR is a wrong
    number of SGPRs.
    """
    first: dict[str, int] = {}
    at = 0
    for name, count, possible in _ORDER:
        if not properties[f"enable_{name}"]:
            continue
        if not possible:
            raise ImageError(
                f"kernel descriptor: the kernel needs ENABLE_SGPR_{name.upper()}, which only an "
                "HSA queue has: build it with -mcode-object-version=5 and -O1, or do not use it"
            )
        first[name] = at
        at += count
    if at > user_sgpr or user_sgpr > MOST:
        raise ImageError(
            f"kernel descriptor: its properties take {at} user SGPRs, RSRC2.USER_SGPR is "
            f"{user_sgpr}, expected at most {MOST}"
        )
    return UserSgprs(first, at)


def scratch_resource(va: int, wave: int, gfx: float) -> list[int]:
    """Returns the four dwords of the buffer resource for scratch memory at `va`, which gfx10.3
    takes in s[0:3].

    FORMAT 0x14 is 32_UINT. DST_SEL is x y z w. OOB_SELECT 2 means never out of bounds (ROCr,
    tinygrad). INDEX_STRIDE is the size of a wave; ROCr leaves this field to the packet processor.
    """
    return ScratchResource.encode(
        gfx=gfx,
        base_lo=va & U32_MAX,
        base_hi={"base": va >> 32 & 0xFFFF, "swizzle_enable": 1},
        num_records=U32_MAX,
        word3={
            "dst_sel": 0xFAC,
            "format": 0x14,
            "index_stride": 2 if wave == 32 else 3,
            "add_tid_enable": 1,
            "resource_level": 1,
            "oob_select": 2,
        },
    )
