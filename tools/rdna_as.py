"""Assembles and disassembles RDNA2 (gfx1036) and RDNA3 (gfx1100) code; lists maps' kernels.

This file only has the command line. sparkle_drv/amd/isa has the assembler, which uses llvm-mc's
syntax; sparkle_drv/codegen/rdna writes the kernels of maps. Code is read and written as raw
little-endian dwords or as hex words. Of an ELF file (.hsaco) the .text section is read.
"""

from __future__ import annotations

from _reexec import reexec

reexec()

import argparse  # noqa: E402
import io  # noqa: E402
import re  # noqa: E402
import shutil  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
from collections.abc import Sequence  # noqa: E402
from pathlib import Path  # noqa: E402

from _console import command_line, output  # noqa: E402
from _console.problems import FAILED, OK  # noqa: E402

from sparkle_drv.lowlevel import emit, isa  # noqa: E402

EXIT_CODES = "exit codes: 0 well, 1 an input error or a difference from llvm-mc, 2 usage"
CPUS = {"gfx10": "gfx1036", "gfx11": "gfx1100"}


def parser() -> argparse.ArgumentParser:
    top = command_line.top("rdna_as.py", __doc__, EXIT_CODES)
    sub = command_line.commands(top)
    for name, command, what in (
        ("assemble", assemble_command, "text to dwords"),
        ("disassemble", disassemble_command, "dwords (raw, hex or an ELF file) to text"),
    ):
        one = sub.add_parser(name, help=what, epilog=EXIT_CODES)
        one.add_argument("file", help="input; - is standard input")
        one.add_argument("--gfx", default="gfx1100", help="gfx1036, gfx1100 ... (gfx1100)")
        one.add_argument("-o", "--output", metavar="FILE", help="instead of standard output")
        one.add_argument("--hex", action="store_true", help="dwords as hex words, one per line")
        one.add_argument("--check", action="store_true", help="compare with llvm-mc, if installed")
        one.set_defaults(command=command)
    one = sub.add_parser(
        "expression", help="the kernel's text of an ops.map expression", epilog=EXIT_CODES
    )
    one.add_argument("file", metavar="EXPRESSION", help='"relu(a*x + y)"')
    one.add_argument("--scalars", default="", metavar="a,b", help="names that are scalars")
    one.add_argument("--dtype", choices=("f32", "i32"), default="f32")
    one.add_argument("--gfx", default="gfx1100", help="gfx1036, gfx1100 ... (gfx1100)")
    one.add_argument("-o", "--output", metavar="FILE", help="instead of standard output")
    one.add_argument("--check", action="store_true", help="compare with llvm-mc, if installed")
    one.set_defaults(command=expression_command)
    one = sub.add_parser(
        "lacking", help="instructions that the emulator does not execute", epilog=EXIT_CODES
    )
    one.add_argument("--gfx", default="gfx1100", help="gfx1036, gfx1100 ... (gfx1100)")
    one.set_defaults(command=lacking_command, file="--gfx")
    sub.choices["disassemble"].add_argument("--wave", type=int, choices=(32, 64), default=32)
    return top


def llvm_mc(cpu: str) -> str | None:
    """Returns the path of an llvm-mc that knows this processor; version 19 is tried first. None if
    there is none.
    """
    for tool in filter(None, map(shutil.which, ("llvm-mc-19", "llvm-mc"))):
        told = subprocess.run(
            [tool, "-triple=amdgcn", "-mcpu=help"],
            input=b"", capture_output=True, check=False,
        )  # fmt: skip
        if re.search(rf"^\s*{cpu} ".encode(), told.stderr + told.stdout, re.M):
            return tool
    return None


def read(name: str) -> bytes:
    return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()


def write(name: str | None, data: bytes) -> int:
    """Writes data to a file. If the file cannot be written, prints a line on stderr and
    returns 1.
    """
    if name is not None:
        return OK if output.save("rdna_as.py", name, data) else FAILED
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
    return OK


def text_section(data: bytes) -> bytes:
    """Returns the .text section of an ELF file. Other bytes are returned unchanged."""
    if not data.startswith(b"\x7fELF"):
        return data
    from elftools.elf.elffile import ELFFile

    section = ELFFile(io.BytesIO(data)).get_section_by_name(".text")
    if section is None:
        raise ValueError("expected an ELF file with a .text section, got none")
    code: bytes = section.data()
    return code


def to_words(data: bytes, is_hex: bool) -> list[int]:
    if is_hex:
        try:
            words = [int(word, 16) for word in data.decode("ascii").split()]
        except ValueError as error:
            raise ValueError(f"expected hex words separated by blanks: {error}") from None
        if any(word < 0 or word >> 32 for word in words):
            raise ValueError("expected hex words of 32 bits, got a larger or negative word")
        return words
    code = text_section(data)
    if len(code) % 4:
        raise ValueError(f"expected whole dwords, got {len(code)} bytes")
    return [int.from_bytes(code[i : i + 4], "little") for i in range(0, len(code), 4)]


def llvm_words(text: str, gfx: str) -> list[int] | None:
    """Returns llvm-mc's dwords of a program, or None if there is no llvm-mc. Raises ValueError if
    llvm-mc refuses the text.
    """
    cpu = CPUS.get(gfx, gfx)
    tool = llvm_mc(cpu)
    if tool is None:
        print(f"rdna_as.py: no llvm-mc here knows {cpu}: nothing compared", file=sys.stderr)
        return None
    command = [tool, "-triple=amdgcn", f"-mcpu={cpu}", "-filetype=obj", "-o", "-"]
    done = subprocess.run(command, input=text.encode(), capture_output=True, check=False)
    if done.returncode:
        raise ValueError(
            "llvm-mc refuses the text:\n" + done.stderr.decode(errors="replace").strip()
        )
    return to_words(done.stdout, False)


def compare(text: str, words: list[int], gfx: str) -> int:
    """Compares `words`, the dwords that our assembler made of `text`, with those of llvm-mc.

    Returns 0 when they are equal or llvm-mc is missing. Otherwise prints the first difference on
    stderr and returns 1.
    """
    theirs = llvm_words(text, gfx)
    if theirs is None or theirs[: len(words)] == words:
        return OK
    at = next(
        (i for i, pair in enumerate(zip(words, theirs, strict=False)) if pair[0] != pair[1]),
        len(theirs),
    )
    ours, other = ([f"{word:08x}" for word in part[at : at + 3]] for part in (words, theirs))
    print(f"differs from llvm-mc at {4 * at:#x}: {ours}, llvm-mc {other}", file=sys.stderr)
    return FAILED


def assemble_command(args: argparse.Namespace) -> int:
    text = read(args.file).decode()
    words = isa.assemble(text, args.gfx)
    if args.hex:
        data = "".join(f"{word:08x}\n" for word in words).encode()
    else:
        data = b"".join(word.to_bytes(4, "little") for word in words)
    code = write(args.output, data)
    return code or (compare(text, words, args.gfx) if args.check else OK)


def disassemble_command(args: argparse.Namespace) -> int:
    words = to_words(read(args.file), args.hex)
    text = isa.disassemble(words, args.gfx, wave=args.wave)
    code = write(args.output, text.encode())
    if code or not args.check:
        return code
    # --check assembles this text with llvm-mc. Its masks are those of wave32, the default of
    # llvm-mc.
    return compare(isa.disassemble(words, args.gfx), words, args.gfx)


def expression_command(args: argparse.Namespace) -> int:
    from sparkle_drv.ops.expression import program

    scalars = frozenset(filter(None, args.scalars.split(",")))
    words = program.compile_map(args.file, scalars, args.dtype).words.tolist()
    chip = CPUS.get(args.gfx, args.gfx)
    gen = isa.generation(chip)
    try:
        made = emit.kernel(f"map_{args.dtype}", tuple(words), gen=gen, chip=chip)
    except emit.DoesNotFit as error:
        raise ValueError(
            f"expected an expression that the device runs as compiled code, not by its interpreter "
            f"of maps: {error}"
        ) from None
    head = (
        f"// {args.file}: {made.code.vgprs} VGPRs, {made.elements} elements per group of "
        f"{made.group_size[0]} threads\n"
    )
    code = write(args.output, (head + made.text).encode())
    if code or not args.check:
        return code
    return compare(made.text, isa.assemble(made.text, args.gfx), args.gfx)


def lacking_command(args: argparse.Namespace) -> int:
    from sparkle_drv.testing.emulated_isa import lacking

    for form, names in lacking(args.gfx).items():
        print(f"{args.gfx} {form}: {len(names)}: {' '.join(names)}")
    return OK


def main(argv: Sequence[str]) -> int:
    """Runs one command and returns its exit code. An error becomes one line on stderr."""
    return output.guarded("rdna_as.py", lambda: _main(argv))


def _main(argv: Sequence[str]) -> int:
    args = parser().parse_args(argv)
    try:
        code: int = args.command(args)
    except (OSError, ValueError) as error:
        name = "standard input" if args.file == "-" else args.file
        print(f"rdna_as.py: {name}: {error}", file=sys.stderr)
        return FAILED
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
