"""The images of all peers: an empty kernel of 0, 4 and 16 arguments, and PTX that compiles slowly.

The entry of each image is `noop`, because the tests' fake driver knows a kernel of that name.
"""

from __future__ import annotations

ENTRY = "noop"
TYPES = {
    0: "",
    4: "f32* f32* f32 u32",
    16: "f32* f32* f32* f32* u32 u32 u32 u32 u32 u32 u32 u32 f32 f32 f32 f32",
}
JIT_TYPES = "f32* f32* f32* f32*" + 9 * " u32"
"""The argument types of gemm_f32, whose compilation is timed."""
_PTX = {"f32*": ".u64", "f32": ".f32", "u32": ".u32"}


def empty(count: int) -> bytes:
    """Returns PTX of ENTRY with `count` arguments, ending in a zero byte. Its ISA 7.0 needs CUDA
    11.0.
    """
    kinds = TYPES[count].split()
    parameters = ", ".join(f".param {_PTX[kind]} p{i}" for i, kind in enumerate(kinds))
    head = ".version 7.0\n.target sm_80\n.address_size 64\n"
    return f"{head}.visible .entry {ENTRY}({parameters})\n{{\n    ret;\n}}\n\0".encode()


def arguments(count: int, memory: list[object]) -> list[object]:
    """Returns a value for each argument: memory for pointers, different numbers for the others."""
    kinds = TYPES[count].split()
    return [
        memory[i % len(memory)] if kind == "f32*" else 1.5 if kind == "f32" else i
        for i, kind in enumerate(kinds)
    ]


def unseen(image: bytes, tag: str) -> bytes:
    """Returns the PTX with one more constant. The key of the driver's cache depends on the text, so
    the driver compiles this PTX anew.
    """
    name = "".join(c if c.isalnum() else "_" for c in tag)
    more = f".visible .const .align 4 .b32 sparkle_{name} = 1;\n"
    text = image.rstrip(b"\0").decode()
    at = text.index(".visible .entry")
    return (text[:at] + more + text[at:]).encode() + b"\0"
