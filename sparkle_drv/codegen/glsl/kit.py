"""Kit: writes one compute shader, from the manifest's signature to the source.

Kit writes the declarations of arguments (k-th pointer = std430 binding k, j-th scalar = uniform
location j) and of the two uniforms sp_null and sp_group_offset. The bodies of kernels are in the
other modules of this folder, one per family of kernels.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from sparkle_drv import assets
from sparkle_drv.types import DeviceInfo

from . import vmath

NULL_LOCATION = 62  #: `uniform uint sp_null`: bit k is set if the k-th pointer is null
GROUP_OFFSET_LOCATION = 63  #: `uniform uvec3 sp_group_offset`: added to gl_WorkGroupID

# 64-bit integers are two words, low first, because core GLSL has no 64-bit integers.
ELEMENTS = {
    "f32": "float", "f64": "double", "i32": "int", "u32": "uint", "i64": "uvec2", "u64": "uvec2",
}  # fmt: skip


@dataclass(frozen=True)
class Shader:
    """A shader's source, grid and group size.

    `groups` has up to three expressions over the kernel's integer arguments (core/abi/extent.py,
    where / rounds up). `group_size` is the local size in the source.
    """

    source: str
    groups: tuple[str, ...]
    group_size: tuple[int, int, int]


@lru_cache(maxsize=1)
def kernels() -> Any:
    return assets.manifest()["kernels"]


def is_es(info: DeviceInfo) -> bool:
    """Returns whether the device has OpenGL ES 3.1.

    OpenGL ES 3.1 has no `precise`, and may have only four storage blocks.
    """
    return info.isa == "essl 310"


@dataclass
class Kit:
    """The builder of a shader for the manifest kernel `name`.

    `types` replaces the element type of a pointer, such as "uint" for copies that must keep every
    bit. `views` adds a second array on a pointer's binding: ("a", "vec4") is `vec4 a_v[]` over the
    memory of `float a[]`.
    """

    name: str
    info: DeviceInfo
    group_size: tuple[int, int, int]
    types: dict[str, str] = field(default_factory=dict)
    views: list[tuple[str, str]] = field(default_factory=list)
    uses: list[str] = field(default_factory=list)  # functions of vmath.py that the shader calls
    shared: list[str] = field(default_factory=list)  # declarations
    extensions: list[str] = field(default_factory=list)  # enabled where the GLSL compiler has them

    def finish(self, body: str, groups: tuple[str, ...], functions: str = "") -> Shader:
        """Returns the shader, whose main() is `body`.

        `functions` is the text of functions that `body` calls. They may read the kernel's
        arguments.
        """
        x, y, z = self.group_size
        size = f"layout(local_size_x = {x}, local_size_y = {y}, local_size_z = {z}) in;"
        shared = [f"shared {declaration};" for declaration in self.shared]
        numbers = vmath.text(self.uses, doubles="f64" in self.info.features)
        asked = [f"#ifdef {e}\n#extension {e} : enable\n#endif" for e in self.extensions]
        parts = [self._version(), *asked, size, *self._arguments(), *shared, numbers, functions]
        parts.append("void main()\n{\n" + _indented(body) + "}\n")
        return Shader("\n".join(part for part in parts if part), groups, self.group_size)

    def _version(self) -> str:
        if is_es(self.info):
            return "#version 310 es\nprecision highp float;\nprecision highp int;\n#define precise"
        return "#version 430 core"

    def _arguments(self) -> list[str]:
        lines, scalars = [], 0
        bindings: dict[str, int] = {}
        for arg in kernels()[self.name]["args"]:
            name, kind = arg["name"], arg["type"]
            if kind.endswith("*"):
                bindings[name] = at = len(bindings)
                element = self.types.get(name, ELEMENTS[kind[:-1]])
                lines.append(_block(at, f"Block{at}", arg["access"], f"{element} {name}[]"))
            else:
                lines.append(f"layout(location = {scalars}) uniform {ELEMENTS[kind]} {name};")
                scalars += 1
        access = {arg["name"]: arg.get("access", "") for arg in kernels()[self.name]["args"]}
        for name, element in self.views:
            at = bindings[name]
            array = f"{element} {name}_v[]"
            lines.append(_block(at, f"Block{at}v", access[name], array))
        lines.append(f"layout(location = {NULL_LOCATION}) uniform uint sp_null;")
        lines.append(f"layout(location = {GROUP_OFFSET_LOCATION}) uniform uvec3 sp_group_offset;")
        return lines


def _block(binding: int, block: str, access: str, array: str) -> str:
    # An output is not `writeonly`, because kernels with an activation read their results back.
    memory = "readonly " if access == "r" else ""
    return f"layout(std430, binding = {binding}) {memory}buffer {block} {{ {array}; }};"


def _indented(text: str) -> str:
    return "".join(f"    {line}\n" if line else "\n" for line in text.strip("\n").split("\n"))


def linear(size: int) -> str:
    """Returns text that sets `uint i` to the number of this thread in a one-dimensional grid.

    Threads beyond 2**32, or with another y or z than 0, get a number that no array reaches.
    """
    return (
        "uvec3 group = gl_WorkGroupID + sp_group_offset;\n"
        f"uint i = group.x * {size}u + gl_LocalInvocationID.x;\n"
        f"if (group.x > {(2**32 - 1) // size}u || (group.y | group.z) != 0u)\n"
        "    i = 0xffffffffu;"
    )
