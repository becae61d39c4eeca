"""Makes isa_gfx1036.txt, isa_gfx1100.txt, isa_gfx1150.txt (what that adds) and isa_names.txt: what
llvm-mc 19 says of each table row.

`make golden-llvm` runs it; nothing else does. Random fields, packed by our own tables, are only
questions: llvm-mc disassembles them, assembles its own text again, and what it then says, text
and bytes, is written down. A line is `DWORDS in hex | TEXT`. Fixed seed: the files change only when
the tables or llvm-mc do.
"""

from __future__ import annotations

import random
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
CPUS = {10: "gfx1036", 11: "gfx1100", 11.5: "gfx1150"}
WAVE32 = ["llvm-mc-19", "-triple=amdgcn", "-show-encoding"]
VARIANTS = {"dpp": "DPP16", "dpp8": "DPP8", "sdwa": "SDWA"}
ASKED = 5  # questions a row, and 2 for each way its lanes can be moved
ROUNDS = 12  # until every row has a vector that llvm-mc takes
ENCODING = re.compile(r"^\s*(.*?)\s*; encoding: \[([0-9a-fx,]*)\]", re.M)


def run(gen: float, text: str, *options: str) -> list[tuple[str, str]]:
    """llvm-mc's (text, hex dwords) of every line it understood."""
    command = [*WAVE32, f"-mcpu={CPUS[gen]}", *options]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    found = []
    for line, listed in ENCODING.findall(done.stdout):
        data = bytes(int(byte, 16) for byte in listed.split(","))
        dwords = [data[i : i + 4][::-1].hex() for i in range(0, len(data), 4)]
        found.append((" ".join(line.split()), " ".join(dwords)))
    return found


def source(rng, row, operand, gen, scalar_only=False):
    """A random operand code; alignment and class as the operand wants."""
    kinds = ["s", "int", "float", "lit", "named"] + ([] if scalar_only else ["v"] * 4)
    kind = rng.choice(kinds)
    ndw = operand.ndw or 1
    if kind == "v":
        narrow = gen == 11 and row.format in ("VOP1", "VOP2", "VOPC")
        return 256 + rng.randrange(128 if narrow else 256 - ndw)
    if kind == "s" or (operand.type == "mask"):
        return rng.randrange(0, 100, 4 if ndw > 2 else ndw)
    if kind == "int":
        return rng.randrange(128, 209)
    if kind == "float":
        return rng.randrange(240, 249)
    return 255 if kind == "lit" else rng.choice([106, 126, 253, 235])


def fill(rng, isa, row, from_rows):
    """Random values of the operands' fields."""
    values = {}
    for operand in row.operands:
        name = operand.field
        if name in ("vcc", "exec", "literal", "offset", "offset2"):
            continue
        field = isa.field_name(row, name)
        ndw = operand.ndw or 1
        if field in ("src0", "src1", "src2", "ssrc0", "ssrc1"):
            scalar = (name.startswith("s") and name != field) or field.startswith("ss")
            values[field] = source(rng, row, operand, isa.gen, scalar)
        elif name in ("sdst", "svdst", "sdata"):
            step = 4 if ndw > 2 else ndw
            null = row.name.startswith("s_waitcnt_")  # nothing else is allowed there
            values[field] = isa.null if null else rng.randrange(0, 96, step)
        elif name in ("sbase", "srsrc"):
            values[field] = rng.randrange(0, 48, 2) if name == "sbase" else rng.randrange(24)
        elif name == "saddr":
            values[field] = rng.choice([isa.null, rng.randrange(0, 100, 2)])
        elif name == "soffset":
            values[field] = rng.choice([isa.null, rng.randrange(100)])
        elif name == "attr":
            values |= {"attr": rng.randrange(33), "chan": rng.randrange(4)}
        elif name == "simm16":
            values[field] = rng.choice([0, 1, rng.randrange(1 << 16), rng.randrange(1 << 8)])
        else:
            narrow = isa.gen == 11 and row.format in ("VOP1", "VOP2", "VOPC")
            values[field] = rng.randrange(128 if narrow else 250 - ndw)
    return values


def modifiers(rng, isa, row, values):
    """Random modifiers: those that the row has not, llvm-mc drops or refuses."""
    form = isa.layout(row)
    for name in sorted(set(form.fields) - set(values) - {"op", "opy", "seg", "sve"}):
        nbits = form.fields[name].nbits
        if name == "op_sel_hi":
            values[name] = rng.choice([7, 7, rng.randrange(8)])
        elif name in ("offset", "dpp_ctrl"):
            values[name] = rng.choice([0, rng.randrange(1 << nbits), rng.randrange(1 << nbits - 1)])
        elif name in (
            "clamp",
            "omod",
            "neg",
            "abs",
            "neg_hi",
            "op_sel",
            "glc",
            "slc",
            "dlc",
            "format",
        ):
            values[name] = rng.choice([0, rng.randrange(1 << nbits)])
        elif name == "lds" and "_load_" in row.name:
            values[name] = int(rng.randrange(8) == 0)
        elif name in ("offen", "idxen", "waitexp", "waitvdst", "gds"):
            values[name] = rng.choice([0, rng.randrange(1 << nbits)])
    if row.name.startswith("ds_gws") or row.name == "ds_ordered_count":
        values["gds"] = 1
    if row.format in ("FLAT", "GLOBAL", "SCRATCH"):
        values.setdefault("saddr", isa.null)
        fields = [operand.field for operand in row.operands]
        if isa.gen == 11 and row.format == "SCRATCH":
            values["sve"] = rng.randrange(2)
        if any(operand.optional for operand in row.operands):
            values["vdst"] = values["vdst"] if values["glc"] else 0
        if "addr" not in fields:
            values["addr"] = 0
    if row.format == "VOP3" and any(operand.field == "exec" for operand in row.operands):
        values["vdst"] = 126
    if row.format == "SMEM" and not any(operand.field == "sbase" for operand in row.operands):
        values = {}
    return values


def clear_flags(rng, row, values):
    """Some questions are without modifiers: many rows take none."""
    for name in ("clamp", "omod", "neg", "abs", "op_sel", "neg_hi", "slc", "dlc", "glc"):
        if name in values:
            values[name] = 0
            if name == "glc" and any(operand.optional for operand in row.operands):
                values["vdst"] = 0


def second(rng, isa, name, row, values):
    """The fields of a DPP or SDWA dword."""
    fields = {"src0": rng.randrange(100)}
    if name == "DPP16":
        fields |= {"dpp_ctrl": rng.choice([rng.randrange(256), 0x101, 0x11F, 0x128, 0x140, 0x141])}
        fields["dpp_ctrl"] = rng.choice([fields["dpp_ctrl"], 0x150 + rng.randrange(32)])
        fields |= {"row_mask": rng.randrange(16), "bank_mask": rng.randrange(16)}
        fields |= {"bound_ctrl": rng.randrange(2), "fi": rng.randrange(2)}
        if row.format in ("VOP1", "VOP2", "VOPC"):
            fields |= {key: rng.choice([0, 0, 1]) for key in ("neg0", "abs0", "neg1", "abs1")}
        return fields
    if name == "DPP8":
        return fields | {"dpp8": rng.randrange(1 << 24)}
    form = isa.formats[name]
    for key, field in form.fields.items():
        if key in ("dst_sel", "src0_sel", "src1_sel"):
            fields[key] = rng.randrange(7)
        elif key == "dst_unused":
            fields[key] = rng.randrange(3)
        elif key == "sdst":
            fields[key] = rng.randrange(100)
        elif key in ("s0", "s1", "sd") or (field.nbits <= 2 and rng.randrange(3) == 0):
            fields[key] = rng.randrange(1 << field.nbits)
    return fields


def questions(rng, isa, row):
    """Random instructions of a row, as hex bytes for llvm-mc -disassemble."""
    from sparkle_drv.amd.isa.codec import SOURCES, encode
    from sparkle_drv.amd.isa.table import Inst

    ways = [""] * ASKED + [
        name for flag, name in VARIANTS.items() if flag in row.flags for _ in "12"
    ]
    asked = []
    for number, way in enumerate(ways):
        values = modifiers(rng, isa, row, fill(rng, isa, row, None))
        if number < 2:
            clear_flags(rng, row, values)
        inst = Inst(row, values)
        if way:
            way = "SDWAB" if way == "SDWA" and row.format == "VOPC" else way
            inst.second = way
            inst.second_fields = second(rng, isa, way, row, values)
            code = {"DPP16": [250], "DPP8": [233, 234]}.get(way, [249])
            values["src0"] = rng.choice(code)
            for name in ("src1", "src2"):
                if name in values and values[name] < 256:
                    values[name] = 256 + rng.randrange(100)
        words = encode(isa, inst)
        literal = any(operand.field == "literal" for operand in row.operands)
        if not inst.second and (literal or 255 in (values.get(key) for key in SOURCES)):
            words.append(rng.choice([rng.randrange(1 << 32), rng.randrange(1 << 16)]))
        asked.append(words)
    return asked


def vopd(rng, isa, row):
    """Pairs with each Y row: registers of four banks, as the hardware wants them."""
    from sparkle_drv.amd.isa.codec import encode
    from sparkle_drv.amd.isa.table import Inst

    asked = []
    for y in (one for one in isa.rows if one.format == "VOPD" and "y" in one.flags):
        for attempt in range(2):
            base = [rng.randrange(0, 200, 4) for _ in range(6)]
            x_dst = base[0] + rng.randrange(4)
            values = {
                **{"vdst": x_dst, "vdsty": base[1] + (~x_dst & 1)},
                **{"src0": 256 + base[2], "src0y": 256 + base[3] + 1},
                **{"vsrc1": base[4] + 2, "vsrc1y": base[5] + 3},
            }
            if attempt:
                values[rng.choice(["src0", "src0y"])] = rng.choice(
                    [rng.randrange(100), 255, 242, 130]
                )
            for one, suffix in ((row, ""), (y, "y")):
                if not any(operand.field == "vsrc1" for operand in one.operands):
                    values["vsrc1" + suffix] = 0
            words = encode(isa, Inst(row, values, y=y))
            literal = any(operand.field == "literal" for operand in (*row.operands, *y.operands))
            if literal or 255 in (values["src0"], values["src0y"]):
                words.append(rng.randrange(1 << 32))
            asked.append(words)
    return asked


def disassemble(gen, asked):
    lines = []
    for words in asked:
        data = b"".join(word.to_bytes(4, "little") for word in words)
        lines.append("[" + " ".join(f"0x{byte:02x}" for byte in data) + "]")
    return run(gen, "\n".join(lines), "-disassemble")


def settle(gen, asked):
    """llvm-mc's own (text, dwords) of what was asked: those that it assembles to the same again."""
    found = disassemble(gen, asked)
    texts = [text for text, _ in found if "/*" not in text and "Warning" not in text]
    canonical = dict.fromkeys(words for _, words in run(gen, "\n".join(texts)))
    again = [[int(word, 16) for word in words.split()] for words in canonical]
    final = dict.fromkeys(disassemble(gen, again))
    same = set(run(gen, "\n".join(text for text, _ in final)))
    # SEXT outside SDWA is NEG of an integer, which means nothing; a double in WMMA is a slip.
    kept = [pair for pair in final if "sext(" not in pair[0] or "_sdwa" in pair[0]]
    kept = [pair for pair in kept if not re.match("v_wmma.*0.15915494309", pair[0])]
    return [pair for pair in kept if pair in same]


def vectors(gen: float) -> list[str]:
    from sparkle_drv.amd.isa.codec import decode
    from sparkle_drv.amd.isa.table import table

    rng = random.Random(1100 + gen)
    isa = table(int(gen))
    wanted = [row for row in isa.rows if "name" not in row.flags]
    wanted = [row for row in wanted if ("rdna35" in row.flags) == (gen == 11.5)]
    found: dict[tuple[str, str], None] = {}
    for _ in range(ROUNDS):
        asked = []
        for row in wanted:
            if row.format != "VOPD":
                asked += questions(rng, isa, row)
            elif "x" in row.flags:
                asked += vopd(rng, isa, row)
        found |= dict.fromkeys(settle(gen, asked))
        insts = [decode(isa, [int(word, 16) for word in words.split()])[0] for _, words in found]
        seen = {one for inst in insts for one in (inst.row, inst.y)}
        wanted = [row for row in wanted if row not in seen]
    print(f"{CPUS[gen]}: no vector for", *(f"{row.name} ({row.format})" for row in wanted))
    return [f"{words} | {text}" for text, words in found]


def plain_name(text: str) -> str:
    return re.sub(r"_(e64_dpp|e32|e64|dpp|sdwa)$", "", text.split()[0])


def aliases(lines: list[str]) -> list[str]:
    """`OLD NEW`: llvm-mc takes gfx1036's names for gfx1100 too, and prints what they are there."""
    texts: dict[str, list[str]] = {}
    for line in lines:
        text = line.split(" | ", 1)[1]
        texts.setdefault(plain_name(text), []).append(text)
    pairs = []
    for old, known in texts.items():
        found = {plain_name(text) for text, _ in run(11, "\n".join(known))}
        pairs += [f"{old} {new}" for new in sorted(found) if new != old]
    return pairs


def main() -> int:
    sys.path.insert(0, str(HERE.parents[1]))
    for gen, cpu in CPUS.items():
        lines = vectors(gen)
        head = f"# Made by tests/golden/make_isa.py with llvm-mc 19, -mcpu={cpu}: dwords | text."
        (HERE / f"isa_{cpu}.txt").write_text("\n".join([head, *lines]) + "\n")
        print(f"isa_{cpu}.txt: {len(lines)} vectors")
        if gen == 10:
            head = "# Made by tests/golden/make_isa.py with llvm-mc 19: gfx1036's name, gfx1100's."
            (HERE / "isa_names.txt").write_text("\n".join([head, *aliases(lines)]) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
