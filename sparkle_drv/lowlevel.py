"""Names below the public API for tools and bring-up: packets, registers, code objects, the ISA.

Any of these names may change between versions. The functions work on indirect buffers (`Ib`).
`read_ibs` reads any form of input. `text` and `parse` convert to and from the text form. `run`
steps through the packets and follows calls of other IBs. `lint` checks IBs, `diff` compares two.
docs/pm4.md has examples.
"""

from sparkle_drv.amd.code import codeobject, dispatch, elf
from sparkle_drv.amd.ib.diff import Difference, diff
from sparkle_drv.amd.ib.diff import ValueChange as Change
from sparkle_drv.amd.ib.dwords import from_bytes, to_bytes, to_hex
from sparkle_drv.amd.ib.lex import TextError
from sparkle_drv.amd.ib.lint import Finding, lint
from sparkle_drv.amd.ib.lookup import NoSuchRegister, lookup, read_value
from sparkle_drv.amd.ib.model import IPS, Ib, read_gfx
from sparkle_drv.amd.ib.parse import parse
from sparkle_drv.amd.ib.print import field_value, register_value, statement, text
from sparkle_drv.amd.ib.read import FORMS, read_ibs
from sparkle_drv.amd.ib.rule import RULES, SEVERITIES, Rule
from sparkle_drv.amd.ib.rule import KernelNeeds as Kernel
from sparkle_drv.amd.ib.run import PacketStep as Step
from sparkle_drv.amd.ib.run import TooManyPackets as TooLong
from sparkle_drv.amd.ib.run import call, find, run
from sparkle_drv.amd.ib.state import written
from sparkle_drv.amd.isa import assembly as isa
from sparkle_drv.amd.isa import formats as isa_formats
from sparkle_drv.amd.isa import names as isa_names
from sparkle_drv.amd.isa import rows as isa_rows
from sparkle_drv.amd.kmd import gpu as raw_gpu
from sparkle_drv.amd.kmd import nodes, raw
from sparkle_drv.amd.record.read import RecordingError, read_recording
from sparkle_drv.amd.record.recorder import Recorder, around, recorded
from sparkle_drv.amd.record.replay import Outcome, on_card, replay
from sparkle_drv.amd.tables import (
    bits,
    chips,
    descriptors,
    granules,
    pm4,
    regs,
    sdma,
    setreg,
    targets,
    type3,
    values,
)
from sparkle_drv.amd.tables.pm4 import stream as decode_stream
from sparkle_drv.backends.amdgpu import info
from sparkle_drv.codegen.rdna import emit

from .backends.cuda import driver as cuda_driver

__all__ = [
    "FORMS",
    "IPS",
    "RULES",
    "SEVERITIES",
    "Change",
    "Difference",
    "Finding",
    "Ib",
    "Kernel",
    "NoSuchRegister",
    "Outcome",
    "Recorder",
    "RecordingError",
    "Rule",
    "Step",
    "TextError",
    "TooLong",
    "around",
    "bits",
    "call",
    "chips",
    "codeobject",
    "cuda_driver",
    "decode_stream",
    "descriptors",
    "diff",
    "dispatch",
    "elf",
    "emit",
    "field_value",
    "find",
    "from_bytes",
    "granules",
    "info",
    "isa",
    "isa_formats",
    "isa_names",
    "isa_rows",
    "lint",
    "lookup",
    "nodes",
    "on_card",
    "parse",
    "pm4",
    "raw",
    "raw_gpu",
    "read_gfx",
    "read_ibs",
    "read_recording",
    "read_value",
    "recorded",
    "register_value",
    "regs",
    "replay",
    "run",
    "sdma",
    "setreg",
    "statement",
    "targets",
    "text",
    "to_bytes",
    "to_hex",
    "type3",
    "values",
    "written",
]
