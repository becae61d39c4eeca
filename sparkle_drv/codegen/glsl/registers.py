"""The tile of sums that one thread keeps in registers: rows of vectors, each a variable of its own.

The accumulator of row r, vector j is `s{r}_{j}`. A step adds products of tm scalars and tn / width
vectors, whose names the caller gives. gemm and conv2d call this.
"""

from __future__ import annotations

from dataclasses import dataclass

LANES = "xyzw"


@dataclass(frozen=True)
class Registers:
    """The variables that hold a thread's sums: tm rows of tn / width vectors, each `width` long.

    `number` is the element type, "float" or "double".
    """

    number: str
    width: int
    tm: int
    tn: int

    @property
    def vector(self) -> str:
        return vector_type(self.number, self.width)

    @property
    def vectors(self) -> int:
        return self.tn // self.width

    def zeros(self) -> str:
        names = [[f"s{r}_{j} = {self.zero}" for j in range(self.vectors)] for r in range(self.tm)]
        return "\n".join(f"{self.vector} {', '.join(row)};" for row in names)

    def poison(self, unless: str) -> str:
        """Returns text that sets every sum to NaN unless the condition `unless` holds.

        The condition says that all terms were added. Mesa's llvmpipe ends a shader's loops after
        65535 iterations in all; NaN shows that a sum is incomplete.
        """
        nan = f"{self.number}(uintBitsToFloat(0x7fc00000u))"
        sums = [f"s{r}_{j}" for r in range(self.tm) for j in range(self.vectors)]
        return f"if (!({unless})) {{\n    {' '.join(f'{s} += {nan};' for s in sums)}\n}}\n"

    def clipped(self, first: str, most: str, apart: int) -> str:
        """Returns an expression for the number of this thread's columns below column `most`.

        The thread's vectors start at columns first, first + apart, first + 2 * apart, ...
        """
        starts = [f"{first} + {v * apart}u" for v in range(self.vectors)]
        return " + ".join(f"min({s} + {self.width}u, {most}) - min({s}, {most})" for s in starts)

    @property
    def zero(self) -> str:
        return f"{self.vector}(0)"

    def step(self, a: list[str], b: list[str]) -> str:
        """Returns text that adds one product to each sum.

        `a` has tm scalars, `b` has tn / width vectors.
        """
        return "\n".join(
            " ".join(f"s{r}_{j} += {a[r]} * {b[j]};" for j in range(self.vectors))
            for r in range(self.tm)
        )

    def steps(self, terms: list[tuple[list[str], list[str]]]) -> str:
        """Returns text that adds several products to each sum.

        `terms` has the two arguments of `step` for each product. The text adds all products to one
        sum before it goes on to the next sum.
        """
        return "\n".join(
            " ".join(f"s{r}_{j} += {a[r]} * {b[j]};" for a, b in terms)
            for r in range(self.tm)
            for j in range(self.vectors)
        )

    def lane(self, r: int, column: int) -> str:
        """Returns the name of this thread's sum at row `r` and column `column` of its tile."""
        j, lane = divmod(column, self.width)
        return f"s{r}_{j}" if self.width == 1 else f"s{r}_{j}.{LANES[lane]}"


def vector_type(number: str, width: int) -> str:
    if width == 1:
        return number
    return f"vec{width}" if number == "float" else f"dvec{width}"


def indented(text: str, by: int = 4) -> str:
    return "\n".join(" " * by + line if line else "" for line in text.split("\n"))


def activation(dtype: str) -> tuple[list[str], str]:
    """Returns (names of the functions of vmath.py that sp_act calls, the GLSL text of sp_act).

    The argument `act` of sp_act is a number of enum sp_activation.
    """
    number = "double" if dtype == "f64" else "float"
    prefix = "f64:" if dtype == "f64" else ""
    text = f"""\
{number} sp_act({number} x, uint act)
{{
    if (act == 1u)
        return sp_relu(x);
    if (act == 2u)
        return sp_tanh(x);
    if (act == 3u)
        return sp_sigmoid(x);
    return x;
}}
"""
    return [f"{prefix}{name}" for name in ("relu", "tanh", "sigmoid")], text
