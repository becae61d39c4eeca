"""The cases: shapes and expressions by name, as pure data. A case does not say how to compute it.

The layers are all different convolutions of ResNet-50 (He et al. 2016, with the stride on the 3x3)
and of VGG-16 (Simonyan and Zisserman 2015), and depthwise ones of MobileNet (Howard et al. 2017).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

CUBES = (8, 16, 32, 64, 128, 256, 512, 1024, 2048)
# (m, n, k) of products with at least one small extent, as in classifiers and attention heads.
SKINNY = (
    (8, 2048, 2048), (64, 1000, 2048), (2048, 8, 2048), (2048, 2048, 8), (2048, 2048, 32),
    (16, 16, 4096), (196, 64, 576), (3136, 64, 64),
)  # fmt: skip
GEMV = ((1, 1024, 1024), (1024, 1, 1024), (1, 4096, 1024), (4096, 1, 4096))
ELEMENTS = {"1k": 1000, "10k": 10_000, "100k": 100_000, "1M": 1_000_000, "10M": 10_000_000}


@dataclass(frozen=True)
class Gemm:
    """The matrix product c[m, n] = a[m, k] @ b[k, n]."""

    m: int
    n: int
    k: int
    dtype: str

    @property
    def flops(self) -> float:
        return 2.0 * self.m * self.n * self.k

    @property
    def nbytes(self) -> float:
        each = 8 if self.dtype == "float64" else 4
        return float(each * (self.m * self.k + self.k * self.n + self.m * self.n))


@dataclass(frozen=True)
class Conv:
    """A float32 cross-correlation of n images [c, size, size] with w [oc, c/groups, k, k]."""

    n: int
    c: int
    size: int
    oc: int
    k: int
    stride: int = 1
    groups: int = 1

    @property
    def padding(self) -> int:
        return self.k // 2

    @property
    def out(self) -> int:
        return (self.size + 2 * self.padding - self.k) // self.stride + 1

    @property
    def flops(self) -> float:
        return 2.0 * self.n * self.oc * self.out**2 * (self.c // self.groups) * self.k**2

    @property
    def nbytes(self) -> float:
        weights = self.oc * self.c // self.groups * self.k**2
        pixels = self.c * self.size**2 + self.oc * self.out**2
        return 4.0 * (self.n * pixels + weights)

    @property
    def winograd(self) -> bool:
        """True if Winograd's algorithm may compute this convolution. Its errors are larger than
        those of plain sums. The algorithm has no form for stride 2.
        """
        return self.k == 3 and self.stride == 1 and self.groups == 1


@dataclass(frozen=True)
class Map:
    """An expression of EXPRESSIONS over float32 arrays x, y, z of n elements and the scalar a."""

    expression: str
    n: int

    @property
    def arrays(self) -> tuple[str, ...]:
        return tuple(sorted(set(re.findall(r"\b[xyz]\b", EXPRESSIONS[self.expression]))))

    @property
    def flops(self) -> float:
        return float(OPERATIONS[self.expression] * self.n)

    @property
    def nbytes(self) -> float:
        return 4.0 * self.n * (len(self.arrays) + 1)


EXPRESSIONS = {
    "copy": "x",
    "four": "(a*x + y)*z - x",
    "transcendental": "tanh(a*x + y)*exp(-x*x)",
}
"""Expressions whose operations every peer has."""
OPERATIONS = {"copy": 0, "four": 4, "transcendental": 7}
SCALAR = 0.75
"""The value of `a`; exact in float32."""


@dataclass(frozen=True)
class Case:
    """One row of the report. Another process finds the case by its `name`."""

    name: str
    group: str
    of: Gemm | Conv | Map

    @property
    def kind(self) -> str:
        return type(self.of).__name__.lower()


def _resnet() -> Iterator[tuple[int, int, int, int, int]]:
    """Yields c, size, oc, k and stride of each different convolution of ResNet-50. Apart from the
    first convolution, those with stride 2 are in the first block of a stage.
    """
    yield 3, 224, 64, 7, 2
    wide, size = 64, 56
    for stage in range(4):
        narrow = 64 << stage
        stride = 1 if stage == 0 else 2
        yield wide, size, narrow, 1, 1
        if stride == 2:
            yield narrow, size, narrow, 3, 2
            yield wide, size, 4 * narrow, 1, 2
        size //= stride
        yield narrow, size, narrow, 3, 1
        yield narrow, size, 4 * narrow, 1, 1
        wide = 4 * narrow
        yield wide, size, narrow, 1, 1


_VGG = (
    (3, 224, 64), (64, 224, 64), (64, 112, 128), (128, 112, 128), (128, 56, 256), (256, 56, 256),
    (256, 28, 512), (512, 28, 512), (512, 14, 512),
)  # fmt: skip
_DEPTHWISE = ((32, 112, 1), (64, 112, 2), (128, 56, 1), (256, 28, 1), (512, 14, 1))


def _layers(n: int) -> Iterator[Case]:
    def made(group: str, conv: Conv) -> Case:
        stride = f" s{conv.stride}" if conv.stride > 1 else ""
        depthwise = " depthwise" if conv.groups > 1 else ""
        what = f"{conv.k}x{conv.k}{stride}{depthwise} {conv.c}->{conv.oc} @{conv.size}"
        return Case(f"conv {what} N={conv.n}", group, conv)

    for c, size, oc, k, stride in dict.fromkeys(_resnet()):
        yield made("resnet", Conv(n, c, size, oc, k, stride))
    for c, size, oc in _VGG:
        yield made("vgg", Conv(n, c, size, oc, 3))
    for c, size, stride in _DEPTHWISE:
        yield made("depthwise", Conv(n, c, size, c, 3, stride, c))


def _gemms() -> Iterator[Case]:
    def made(group: str, m: int, n: int, k: int, dtype: str) -> Case:
        kind = {"float32": "f32", "float64": "f64"}[dtype]
        return Case(f"gemm {kind} {m}x{n}x{k}", group, Gemm(m, n, k, dtype))

    for dtype in ("float32", "float64"):
        for size in CUBES:
            yield made("cubes", size, size, size, dtype)
    for shape in SKINNY:
        yield made("skinny", *shape, "float32")
    for shape in GEMV:
        yield made("gemv", *shape, "float32")


@cache
def all_cases() -> Mapping[str, Case]:
    """Returns every case by its name, in the order of the report: gemms, maps, convolutions."""
    maps = [
        Case(f"map {name} {label}", "maps", Map(name, n))
        for name in ("four", "transcendental")
        for label, n in ELEMENTS.items()
    ]
    maps.append(Case("map copy 10M", "maps", Map("copy", ELEMENTS["10M"])))
    found = [*_gemms(), *maps, *_layers(1), *_layers(8)]
    named = {case.name: case for case in found}
    if len(named) != len(found):
        raise AssertionError("expected a name of its own for each case, got two of one name")
    return MappingProxyType(named)


def select(pattern: str) -> list[Case]:
    """Returns the cases whose names match the regular expression `pattern`. Raises re.error if it
    is malformed.
    """
    wanted = re.compile(pattern)
    return [case for name, case in all_cases().items() if wanted.search(name)]
