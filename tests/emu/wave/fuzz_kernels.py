"""Random kernels compiled for this machine and for emulated cards: results must agree bit for bit.

`make fuzz-isa` runs 2,000 a family, at -O0 to -O3, in wave32 and wave64; the test runs a few. One
source serves both compilers, as kernels/lanes.h does. What C leaves open is avoided (shift counts,
ranges of conversions, INT_MIN / -1), NaNs are made one NaN before anything looks at their bits, and
FMA contraction is off. Needs clang-19 and lld-19.
"""

from __future__ import annotations

import argparse
import ctypes
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from sparkle_drv.testing.emulated_kernels import CardKernels
from sparkle_drv.testing.emulator import EmulatedGpu, Machine

KERNELS = Path(__file__).resolve().parent / "kernels"
CHIPS = ("gfx1036", "gfx1100")
LANES, WORDS = 128, 8  # lanes of a launch, dwords in and out of each
HEAD = '#include "fuzz.h"\n'


class Writer:
    """One kernel: statements over a few variables of each type."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.lines: list[str] = []

    def u(self) -> str:
        r = self.rng
        return r.choice(["a0", "a1", "a2", "a3", f"{r.randrange(1 << r.choice((3, 8, 32)))}u"])

    def q(self) -> str:
        return self.rng.choice(["b0", "b1", f"(u64){self.u()}"])

    def f(self) -> str:
        return self.rng.choice(["f0", "f1", "f2", "1.5f", "-3.25f"])

    def d(self) -> str:
        return self.rng.choice(["d0", "d1", "0.3", "-7.5"])

    def condition(self) -> str:
        r = self.rng
        kind = r.choice((self.u, self.u, self.q, self.f, self.d))
        cast = r.choice(("", "(int)")) if kind == self.u else ""
        compare = r.choice(("<", ">", "<=", "==", "!="))
        return f"{cast}{kind()} {compare} {cast}{kind()}"

    def word(self) -> str:
        r, x, y = self.rng, self.u(), self.u()
        return r.choice((
            f"{x} + {y}", f"{x} - {y}", f"{x} * {y}", f"{x} & {y}", f"{x} | {y}", f"{x} ^ {y}",
            f"~{x}", f"{x} << ({y} & 31)", f"{x} >> ({y} & 31)", f"(u32)((int){x} >> ({y} & 31))",
            f"hide({x}) / hide({y} | 1)", f"hide({x}) % hide({y} | 1)",
            f"(u32)((int){x} / (int)(({y} & 0xffff) | 1))",
            f"(u32)((int){x} % (int)(({y} & 0xffff) | 1))", f"(u32){self.q()}",
            f"(u32)({self.q()} >> 32)", f"bits_f({self.f()})", f"(u32)to_i({self.f()})",
            f"to_u({self.f()})", f"(u32)(bits_d({self.d()}) >> 32)", "bits_h(h0)", "bits_h(h1)",
            f"p[{x} & 7]", f"p[({x} & 3) + 4]", f"l[{x} & 3]", f"({self.condition()}) ? {x} : {y}",
            f"(u32)(signed char){x} + (ushort){y}", f"(u32)(short)({x} * {y})",
            f"(u32)(((u64){x} * {y}) >> 32)", f"(u32)__builtin_popcount({x})",
        ))  # fmt: skip

    def long(self) -> str:
        r, x, y = self.rng, self.q(), self.q()
        return r.choice((
            f"{x} + {y}", f"{x} - {y}", f"{x} * {y}", f"{x} ^ {y}", f"{x} & {y}",
            f"{x} << ({y} & 63)", f"{x} >> ({y} & 63)", f"(u64)((i64){x} >> ({y} & 63))",
            f"hide64({x}) / hide64({y} | 1)", f"hide64({x}) % hide64({y} | 1)",
            f"(u64)((i64)hide64({x}) / (i64)(({y} & 0xffffff) | 1))",
            f"bits_d({self.d()})", f"(u64)to_l({self.d()})", f"(u64)(i64)(int){self.u()}",
            f"(u64){self.u()} << 32 | {self.u()}", f"({self.condition()}) ? {x} : {y}",
        ))  # fmt: skip

    def single(self) -> str:
        r, x, y = self.rng, self.f(), self.f()
        return r.choice((
            f"{x} + {y}", f"{x} - {y}", f"{x} * {y}", f"{x} / {y}", f"-({x})", f"as_f({self.u()})",
            f"(float)(int){self.u()}", f"(float){self.u()}", f"(float){self.d()}",
            f"(float)(i64){self.q()}", "(float)h0", f"__builtin_floorf({x})",
            f"__builtin_truncf({x})", f"__builtin_ceilf({x})", f"__builtin_fabsf({x})",
            f"__builtin_rintf({x})", f"__builtin_fmaf({x}, {y}, {self.f()})",
            f"({self.condition()}) ? {x} : {y}",
        ))  # fmt: skip

    def double(self) -> str:
        r, x, y = self.rng, self.d(), self.d()
        return r.choice((
            f"{x} + {y}", f"{x} - {y}", f"{x} * {y}", f"{x} / {y}", f"-({x})",
            f"(double){self.f()}",
            f"(double)(int){self.u()}", f"(double)(i64){self.q()}", f"(double){self.q()}",
            f"as_d({self.q()})", f"__builtin_floor({x})", f"__builtin_fma({x}, {y}, {self.d()})",
            f"({self.condition()}) ? {x} : {y}",
        ))  # fmt: skip

    def half(self) -> str:
        return self.rng.choice((
            "h0 + h1", "h0 - h1", "h0 * h1", "-h0", f"as_h({self.u()})", f"to_h({self.f()})",
            f"(f16)(int)({self.u()} & 0xfff)", f"({self.condition()}) ? h0 : h1",
        ))  # fmt: skip

    def statement(self, depth: int) -> None:
        r, pad = self.rng, "    " * (depth + 1)
        what = r.randrange(24)
        if what < 2 and depth < 3:
            self.lines.append(f"{pad}if ({self.condition()}) {{")
            self.block(depth + 1)
            self.lines.append(f"{pad}}} else {{")
            self.block(depth + 1)
            self.lines.append(f"{pad}}}")
        elif what < 4 and depth < 3:
            count = f"({self.u()} & {r.choice((3, 7))})"
            name = f"k{len(self.lines)}"
            self.lines.append(f"{pad}for (u32 {name} = 0, m = {count}; {name} < m; {name}++) {{")
            self.block(depth + 1)
            self.lines.append(f"{pad}    a{r.randrange(4)} += {name};\n{pad}}}")
        elif what < 6:
            place = r.choice((f"p[{self.u()} & 7]", f"l[{self.u()} & 3]"))
            self.lines.append(f"{pad}{place} = {self.word()};")
        else:
            kind, names = r.choice((
                (self.word, ("a0", "a1", "a2", "a3")), (self.word, ("a0", "a1", "a2", "a3")),
                (self.long, ("b0", "b1")), (self.single, ("f0", "f1", "f2")),
                (self.double, ("d0", "d1")), (self.half, ("h0", "h1")),
            ))  # fmt: skip
            self.lines.append(f"{pad}{r.choice(names)} = {kind()};")

    def block(self, depth: int) -> None:
        for _ in range(self.rng.randrange(2, 5)):
            self.statement(depth)

    def kernel(self, name: str) -> str:
        for _ in range(self.rng.randrange(8, 20)):
            self.statement(0)
        start = [
            "    u32 a0 = in[0], a1 = in[1], a2 = in[2], a3 = in[3], p[8];",
            "    u64 b0 = (u64)in[4] << 32 | in[5], b1 = (u64)in[6] << 32 | in[7];",
            "    float f0 = as_f(in[4]), f1 = (float)(int)in[1], f2 = as_f(in[6]);",
            "    double d0 = as_d(b0), d1 = (double)(int)in[2];",
            "    f16 h0 = as_h(in[5]), h1 = as_h(in[3]);",
            "    for (int k = 0; k < 8; k++) p[k] = in[k] * 3u;",
            "    for (int k = 0; k < 4; k++) l[k] = in[k] + 5u;",
        ]
        end = [
            "    out[0] = a0 ^ p[0] ^ p[5]; out[1] = a1 ^ p[3]; out[2] = a2 ^ l[1];",
            "    out[3] = a3 ^ p[7]; out[4] = (u32)(b0 ^ b0 >> 32) ^ bits_h(h0);",
            "    out[5] = (u32)(b1 ^ b1 >> 32) ^ bits_h(h1);",
            "    out[6] = bits_f(f0) ^ bits_f(f1) << 1 ^ bits_f(f2);",
            "    b0 = bits_d(d0); b1 = bits_d(d1);",
            "    out[7] = (u32)(b0 ^ b0 >> 32) ^ (u32)(b1 ^ b1 >> 31);",
        ]
        head = f"INLINE void body_{name}(GLOBAL const u32 *in, GLOBAL u32 *out, LDS u32 *l)\n{{"
        return "\n".join([head, *start, *self.lines, *end, f"}}\nKERNEL({name})\n"])


def source(seed: int, count: int) -> str:
    rng = random.Random(seed)
    return HEAD + "\n".join(Writer(rng).kernel(f"k{n}") for n in range(count))


def inputs(seed: int) -> np.ndarray:
    """Random bits, small numbers, ordinary floats, and edges."""
    r = np.random.default_rng(seed)
    wild = r.integers(0, 1 << 32, (LANES, WORDS), dtype=np.uint32)
    small = r.integers(0, 40, (LANES, WORDS), dtype=np.uint32)
    plain = (r.standard_normal((LANES, WORDS)) * 50).astype(np.float32).view(np.uint32)
    edges = np.array([0, 1, 1 << 31, 0xFFFFFFFF, 0x7F800000, 0x3F800000, 0x00800000], np.uint32)
    choice = r.integers(0, 4, (LANES, WORDS))
    return np.choose(choice, [wild, small, plain, r.choice(edges, (LANES, WORDS))]).astype(
        np.uint32
    )


def compile_both(folder: Path, text: str, chip: str, level: int, wave: int) -> tuple[Path, Path]:
    (folder / "k.c").write_text(text)
    host, code = folder / "k.so", folder / "k.hsaco"
    common = ["clang-19", "-ffp-contract=off", "-fwrapv", "-w", f"-I{KERNELS}"]
    subprocess.run(
        [
            *common,
            "-O1",
            "-fno-strict-aliasing",
            "-shared",
            "-fPIC",
            "-o",
            host,
            folder / "k.c",
            "-lm",
        ],
        check=True,
    )
    card = ["-x", "cl", "-cl-std=CL2.0", "-target", "amdgcn-amd-amdhsa", f"-mcpu={chip}"]
    card += ["-nogpulib", "-cl-fp32-correctly-rounded-divide-sqrt", f"-O{level}"]
    card += ["-mwavefrontsize64"] if wave == 64 else ["-mno-wavefrontsize64"]
    subprocess.run([*common, *card, "-o", code, folder / "k.c"], check=True)
    return host, code


def batch(seed: int, count: int, chip: str, level: int, wave: int) -> list[str]:
    """What differs: a line a kernel, with all that repeats it."""
    given, found = inputs(seed), []
    with tempfile.TemporaryDirectory() as name, Machine([chip], job_limit_s=10) as machine:
        host, code = compile_both(Path(name), source(seed, count), chip, level, wave)
        library = ctypes.CDLL(str(host))
        with (
            machine.open() as node,
            EmulatedGpu(node) as gpu,
            CardKernels(gpu, chip, code) as kernels,
        ):
            source_, sink = gpu.buffer(given.nbytes), gpu.buffer(given.nbytes)
            source_.map[: given.nbytes] = given.tobytes()
            for n in range(count):
                want = np.zeros_like(given)
                pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in (given, want)]
                library[f"k{n}"](*pointers, ctypes.c_int(LANES))
                try:
                    kernels.launch(f"k{n}", [source_, sink, LANES], LANES // 64)
                except OSError as error:  # the context is lost: the rest of the batch is, too
                    found.append(f"{chip} wave{wave} -O{level} seed {seed} k{n}: {error}")
                    break
                got = np.frombuffer(sink.map, np.uint32)[: given.size].reshape(given.shape)
                if np.any(wrong := got != want):
                    lane, word = (int(axis[0]) for axis in np.nonzero(wrong))
                    found.append(
                        f"{chip} wave{wave} -O{level} seed {seed} k{n}: lane {lane} word {word} is "
                        f"{got[lane, word]:#x}, here {want[lane, word]:#x} ({wrong.sum()} differ)"
                    )
            source_.close()
            sink.close()
    return found


def main() -> int:
    top = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    top.add_argument("--count", type=int, default=2000, help="kernels a chip (2000)")
    top.add_argument("--seed", type=int, default=1)
    top.add_argument("--each", type=int, default=50, help="kernels of one compilation (50)")
    args = top.parse_args()
    ways = [(level, wave) for level in range(4) for wave in (32, 64)]
    found, total = [], 0
    for chip in CHIPS:
        for k in range(-(-args.count // args.each)):
            level, wave = ways[k % len(ways)]
            said = batch(args.seed * 100_000 + k, args.each, chip, level, wave)
            found += said
            total += args.each
            print("\n".join(said), end="\n" if said else "", flush=True)
    print(f"{total} kernels, {len(found)} differ")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
