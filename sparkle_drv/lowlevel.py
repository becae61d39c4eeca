"""What tools and bring-up may use below the public API: packets, registers, code objects, the ISA.

Names only. Nothing here is stable between versions. The functions work on indirect buffers (`Ib`):
`read_ibs` takes any form of input, `text` and `parse` are the text form, `run` follows calls,
`lint` and `diff` judge; docs/pm4.md has examples.
"""

from .backends.amdgpu import (
    bits,
    chips,
    codeobject,
    descriptors,
    dispatch,
    elf,
    emit,
    info,
    isa,
    isa_formats,
    isa_rows,
    nodes,
    pm4,
    raw,
    raw_gpu,
    regs,
    sdma,
    setreg,
    targets,
    type3,
    values,
)
from .backends.amdgpu.ib_diff import Change, Difference, diff
from .backends.amdgpu.ib_dwords import from_bytes, to_bytes, to_hex
from .backends.amdgpu.ib_lex import TextError
from .backends.amdgpu.ib_lint import Finding, lint
from .backends.amdgpu.ib_model import IPS, Ib, read_gfx
from .backends.amdgpu.ib_parse import parse
from .backends.amdgpu.ib_print import field_value, register_value, statement, text
from .backends.amdgpu.ib_read import FORMS, read_ibs
from .backends.amdgpu.ib_rule import RULES, SEVERITIES, Kernel, Rule
from .backends.amdgpu.ib_run import Step, TooLong, call, find, run
from .backends.amdgpu.ib_state import written
from .backends.amdgpu.pm4 import stream as decode_stream
from .backends.amdgpu.recording import Recorder, around, recorded
from .backends.amdgpu.recording_read import RecordingError, read_recording
from .backends.amdgpu.regs_lookup import NoSuchRegister, lookup, read_value
from .backends.amdgpu.replay import Outcome, on_card, replay
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
    "info",
    "isa",
    "isa_formats",
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
