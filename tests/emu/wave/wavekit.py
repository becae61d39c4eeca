"""Shaders on an emulated card, for the tests of waves: words by assembler line, a harness around
one instruction.

Words are in wave_words.json, so that a bare machine needs no assembler; make_words.py adds the
lines that tests ask for and the file lacks.
"""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
from pathlib import Path

import numpy as np

from sparkle_drv.testing.emulated_dispatch import launch
from sparkle_drv.testing.emulator import EmulatedGpu

HERE = Path(__file__).parent
GFX = {"gfx1036": 10, "gfx1100": 11}
WORDS_FILE = HERE / "wave_words.json"
RECORDING = False
_words: dict[str, dict[str, str]] = (
    json.loads(WORDS_FILE.read_text()) if WORDS_FILE.exists() else {}
)


def _assemble(chip: str, wave: int, line: str) -> str:
    feature = f"-mattr=+wavefrontsize{wave},-wavefrontsize{96 - wave}"
    command = [
        shutil.which("llvm-mc-19"),
        "-arch=amdgcn",
        f"-mcpu={chip}",
        feature,
        "-show-encoding",
    ]
    done = subprocess.run(command, input=line, capture_output=True, text=True, check=True)
    data = done.stdout.split("encoding: [")[1].split("]")[0]
    raw = bytes(int(byte, 16) for byte in data.split(","))
    return " ".join(f"{word:08x}" for word in struct.unpack(f"<{len(raw) // 4}I", raw))


def asm(chip: str, text: str, wave: int = 32) -> list[int]:
    """Words of assembler text, a line each; `;` starts a comment."""
    table = _words.setdefault(f"{chip} wave{wave}", {})
    words: list[int] = []
    for line in text.splitlines():
        line = line.split(";")[0].strip()
        if not line:
            continue
        if line.startswith(".long "):
            words.append(int(line.removeprefix(".long "), 0))
            continue
        if RECORDING and line not in table:
            table[line] = _assemble(chip, wave, line)
        words += [int(word, 16) for word in table[line].split()]
    return words


def save_words() -> None:
    ordered = {key: dict(sorted(lines.items())) for key, lines in sorted(_words.items())}
    WORDS_FILE.write_text(json.dumps(ordered, indent=0) + "\n")


def float_mode(mode: int = 0xF0, *, ieee: bool = True, dx10_clamp: bool = True) -> int:
    """RSRC1's bits for MODE."""
    return mode << 12 | dx10_clamp << 21 | ieee << 23


# A dword a thread of each array comes in as v1 to v6, v10 to v13 go out; s8 is the group.
ARRAYS_IN, ARRAYS_OUT, STRIDE = 6, 4, 256
PROLOGUE = """
s_mul_i32 s20, s8, 0x800
s_add_u32 s0, s0, s20
s_addc_u32 s1, s1, 0
s_add_u32 s2, s2, s20
s_addc_u32 s3, s3, 0
v_lshlrev_b32 v20, 2, v0
v_mov_b32 v10, 0
v_mov_b32 v11, 0
v_mov_b32 v12, 0
v_mov_b32 v13, 0
global_load_dword v1, v20, s[0:1]
global_load_dword v2, v20, s[0:1] offset:256
global_load_dword v3, v20, s[0:1] offset:512
global_load_dword v4, v20, s[0:1] offset:768
global_load_dword v5, v20, s[0:1] offset:1024
global_load_dword v6, v20, s[0:1] offset:1280
s_waitcnt vmcnt(0)
"""
EPILOGUE = """
global_store_dword v20, v10, s[2:3]
global_store_dword v20, v11, s[2:3] offset:256
global_store_dword v20, v12, s[2:3] offset:512
global_store_dword v20, v13, s[2:3] offset:768
s_endpgm
"""


def run_lanes(
    gpu: EmulatedGpu,
    chip: str,
    body: str,
    inputs: list[np.ndarray],
    *,
    wave: int = 32,
    user: tuple[int, ...] = (0, 0, 0, 0),
    mode: int = 0xF0,
    ieee: bool = True,
    lds: int = 0,
    timeout_s: float = 10.0,
    at: tuple[int, int] | tuple[None, None] = (None, None),
    sink_rights: str = "w",
) -> list[np.ndarray]:
    """Runs `body` once a thread: inputs[k] (dwords) in v1+k, four arrays out, v10 to v13.

    `at` says where in GPU memory the arrays lie, in and out.

    The body may use s4 to s7 (`user`), s9 to s30, v7 to v31 but for v20, and VCC.
    """
    count = max(len(values) for values in inputs)
    groups = -(-count // wave)
    data = np.zeros((groups, 2048 // STRIDE, 64), np.uint32)
    for k, values in enumerate(inputs):
        bits = np.zeros(groups * wave, np.uint32)
        bits[: len(values)] = np.ascontiguousarray(values).view(np.uint32)
        data[:, k, :wave] = bits.reshape(groups, wave)
    code = gpu.buffer(8192, rights="rx")
    source = gpu.buffer(data.nbytes, rights="r", va=at[0])
    sink = gpu.buffer(data.nbytes, rights=sink_rights, va=at[1])
    try:
        code.write(asm(chip, PROLOGUE + body + EPILOGUE, wave))
        np.frombuffer(source.map, np.uint32)[: data.size] = data.ravel()
        vgprs = 31 // 8 if wave == 32 else 31 // 4
        ib = launch(
            GFX[chip],
            code=code.va,
            rsrc1=vgprs | float_mode(mode, ieee=ieee),
            rsrc2=8 << 1 | 1 << 7 | -(-lds // 512) << 15,
            user=(source.lo, source.hi, sink.lo, sink.hi, *user),
            groups=(groups, 1, 1),
            size=(wave, 1, 1),
            wave=wave,
        )
        job = gpu.submit("compute", ib, bos=[code, source, sink])
        gpu.wait(job, timeout_s)
        out = np.frombuffer(sink.map, np.uint32)[: data.size].reshape(data.shape).copy()
        return [out[:, k, :wave].reshape(-1)[:count] for k in range(ARRAYS_OUT)]
    finally:
        for buffer in (code, source, sink):
            buffer.close()


def edges(*special: int, count: int = 512, seed: int = 5, pool: int = 16) -> list[np.ndarray]:
    """Three arrays of dwords: each pair of the special values, then random bits."""
    r = np.random.default_rng(seed)
    values = np.array([v & 0xFFFFFFFF for v in special[:pool]], np.uint32)
    a, b = (grid.ravel() for grid in np.meshgrid(values, values))
    more = r.integers(0, 1 << 32, (3, count), dtype=np.uint32)
    third = r.choice(values, a.size)
    return [np.concatenate(pair) for pair in zip((a, b, third), more, strict=True)]


INTS = edges(0, 1, 2, 31, 32, 33, 63, 64, 255, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 1 << 31, -1, -2)
FLOATS = edges(
    *(0, 1 << 31, 0x3F800000, 0xBF800000, 0x40490FDB, 0x7F800000, 0xFF800000, 0x7FC00000),
    *(1, 0x807FFFFF, 0x00800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x3EAAAAAB, 0x4B000001, 0xCB7FFFFF),
)


def run_lines(gpu, chip, lines, inputs, *, wave=32, **options):
    """One array for each line; `D` in a line is its result's register."""
    results: list[np.ndarray] = []
    for at in range(0, len(lines), ARRAYS_OUT):
        some = lines[at : at + ARRAYS_OUT]
        body = "\n".join(line.replace("D", f"v{10 + k}", 1) for k, line in enumerate(some))
        results += run_lanes(gpu, chip, body, inputs, wave=wave, **options)[: len(some)]
    return results


def same_floats(got: np.ndarray, want: np.ndarray, what: str, ulps: int = 0) -> None:
    """Equal but for the bits of NaNs, or within `ulps` steps."""
    got, want = got.view(np.float32), want.astype(np.float32)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want), err_msg=what)
    ok = ~np.isnan(want)
    g, w = (
        np.where(ok, x, 0).astype(np.float32).view(np.int32).astype(np.int64) for x in (got, want)
    )
    g, w = (np.where(x < 0, -(x & 0x7FFFFFFF) - (ulps == 0), x) for x in (g, w))
    assert np.abs(g - w).max() <= ulps, f"{what}: at {np.abs(g - w).argmax()}"
