"""Named values of fields of PM4 packets, and the word of cache actions that several packets
share.
"""

from __future__ import annotations

from enum import IntEnum

from .bits import Word, bits


class Event(IntEnum):
    """Values of VGT_EVENT_TYPE that compute and RADV's queues use."""

    CACHE_FLUSH_TS = 0x04
    CACHE_FLUSH = 0x06
    CS_PARTIAL_FLUSH = 0x07  # fault: flush
    VS_PARTIAL_FLUSH = 0x0F
    PS_PARTIAL_FLUSH = 0x10
    CACHE_FLUSH_AND_INV_TS = 0x14
    CACHE_FLUSH_AND_INV_EVENT = 0x16
    PIPELINESTAT_START = 0x19
    PIPELINESTAT_STOP = 0x1A
    VGT_FLUSH = 0x24
    BOTTOM_OF_PIPE_TS = 0x28
    FLUSH_AND_INV_DB_META = 0x2C
    FLUSH_AND_INV_CB_META = 0x2E
    CS_DONE = 0x2F
    PS_DONE = 0x30
    PIXEL_PIPE_STAT_CONTROL = 0x38


class DataSel(IntEnum):
    """Kinds of value that RELEASE_MEM writes."""

    NONE = 0
    VALUE_32 = 1
    VALUE_64 = 2
    GPU_CLOCK = 3
    SYSTEM_CLOCK = 4


class IntSel(IntEnum):
    """Whether RELEASE_MEM interrupts, and when it writes its data."""

    NONE = 0
    INT_ONLY = 1
    INT_AFTER_CONFIRM = 2
    DATA_AFTER_CONFIRM = 3


class CachePolicy(IntEnum):
    LRU = 0
    STREAM = 1
    NOALLOC = 2
    BYPASS = 3


class Function(IntEnum):
    """Comparisons of WAIT_REG_MEM and POLL_REGMEM."""

    ALWAYS = 0
    LESS = 1
    LESS_EQUAL = 2
    EQUAL = 3
    NOT_EQUAL = 4
    GREATER_EQUAL = 5
    GREATER = 6


class CopySel(IntEnum):
    """Sources and destinations of COPY_DATA, and destinations of WRITE_DATA."""

    REGISTER = 0
    SRC_MEMORY = 1  # memory; valid only as a source
    TC_L2 = 2
    GDS = 3
    PERF_COUNTER = 4
    IMMEDIATE_OR_MEMORY = 5  # as a source an immediate value, as a destination memory
    GPU_CLOCK = 9


class Seq(IntEnum):
    PARALLEL = 0
    FORWARD = 1
    REVERSE = 2


# GCR_CNTL: the caches that ACQUIRE_MEM writes back and invalidates. gfx12 has no GLM.
GCR = Word(
    gli_inv=bits(0, 1),
    gl1_range=bits(2, 3),
    glm_wb=bits(4, gfx=(10, 11)),  # fault: glm
    glm_inv=bits(5, gfx=(10, 11)),
    glk_wb=bits(6),
    glk_inv=bits(7),
    glv_inv=bits(8),
    gl1_inv=bits(9),
    gl2_us=bits(10),
    gl2_range=bits(11, 12),
    gl2_discard=bits(13),
    gl2_inv=bits(14),  # fault: gl2
    gl2_wb=bits(15),
    seq=bits(16, 17, Seq),
    range_is_pa=bits(18),
)
