"""Data formats as numpy sees them: bytes to channels and back, by the names that llvm-mc gives."""

from __future__ import annotations

import numpy as np

from sparkle_drv.lowlevel import isa_names


class Format:
    """BUF_FMT_10_11_11_FLOAT: the most significant channel is named first."""

    def __init__(self, name: str) -> None:
        sizes, _, self.kind = name.removeprefix("BUF_FMT_").rpartition("_")
        self.bits = [int(size) for size in reversed(sizes.split("_"))]
        self.nbytes = sum(self.bits) // 8
        self.integer = self.kind in ("UINT", "SINT")

    def raw(self, data: bytes) -> np.ndarray:
        """Elements of memory as rows of channels, unsigned."""
        rows = []
        for at in range(0, len(data), self.nbytes):
            word = int.from_bytes(data[at : at + self.nbytes], "little")
            row = []
            for size in self.bits:
                row.append(word & ((1 << size) - 1))
                word >>= size
            rows.append(row)
        return np.array(rows, np.uint64)

    def bytes_of(self, rows: np.ndarray) -> bytes:
        out = b""
        for row in rows:
            word, at = 0, 0
            for size, value in zip(self.bits, row, strict=True):
                word |= (int(value) & ((1 << size) - 1)) << at
                at += size
            out += word.to_bytes(self.nbytes, "little")
        return out

    def channels(self, data: bytes) -> np.ndarray:
        """Four dwords an element: what a load gives when DST_SEL is X, Y, Z, W."""
        raw = self.raw(data)
        one = 1 if self.integer else np.float32(1).view(np.uint32)
        out = np.tile(np.array([0, 0, 0, one], np.uint32), (len(raw), 1))
        for c, size in enumerate(self.bits):
            out[:, c] = self._channel(raw[:, c], size)
        return out

    def _channel(self, raw: np.ndarray, size: int) -> np.ndarray:
        most = (1 << size) - 1
        signed = raw.astype(np.int64)
        signed = np.where(signed > most >> 1, signed - most - 1, signed)
        if self.integer:
            return (signed if self.kind == "SINT" else raw).astype(np.uint64).astype(np.uint32)
        if self.kind == "FLOAT":
            return self._floats(raw, size)
        value = {
            "UNORM": raw / most,
            "SNORM": np.maximum(signed / (most >> 1), -1),
            "USCALED": raw.astype(np.float64),
            "SSCALED": signed.astype(np.float64),
        }[self.kind]
        return value.astype(np.float32).view(np.uint32)

    @staticmethod
    def _floats(raw: np.ndarray, size: int) -> np.ndarray:
        if size == 32:
            return raw.astype(np.uint32)
        if size == 16:
            return raw.astype(np.uint16).view(np.float16).astype(np.float32).view(np.uint32)
        digits = size - 5
        exponent, fraction = (raw >> digits).astype(int), (raw & ((1 << digits) - 1)).astype(float)
        normal = np.ldexp(1 + fraction / (1 << digits), exponent - 15)
        value = np.where(exponent == 0, np.ldexp(fraction / (1 << digits), -14), normal)
        value = np.where(exponent == 31, np.where(fraction > 0, np.nan, np.inf), value)
        return value.astype(np.float32).view(np.uint32)

    def store(self, channels: np.ndarray) -> bytes:
        """Memory after a store of four dwords an element."""
        rows = [self._stored(channels[:, c], size) for c, size in enumerate(self.bits)]
        return self.bytes_of(np.array(rows).T)

    def _stored(self, word: np.ndarray, size: int) -> np.ndarray:
        most, top = (1 << size) - 1, ((1 << size) - 1) >> 1
        if self.kind == "UINT":
            return np.minimum(word, most).astype(np.int64)
        if self.kind == "SINT":
            return np.clip(word.view(np.int32), -top - 1, top).astype(np.int64)
        if self.kind == "FLOAT":
            return self._small(word, size)
        low, high, scale = {
            "UNORM": (0, 1, most),
            "SNORM": (-1, 1, top),
            "USCALED": (0, most, 1),
            "SSCALED": (-top - 1, top, 1),
        }[self.kind]
        value = np.nan_to_num(word.view(np.float32).astype(np.float64), nan=0.0)
        return np.rint(np.clip(value, low, high) * scale).astype(np.int64)

    @staticmethod
    def _small(word: np.ndarray, size: int) -> np.ndarray:
        """Floats of ten and eleven bits: the nearest of all that there are, ties to even."""
        if size == 32:
            return word.astype(np.int64)
        value = word.view(np.float32)
        if size == 16:
            with np.errstate(over="ignore"):
                return value.astype(np.float16).view(np.uint16).astype(np.int64)
        every = np.arange(31 << (size - 5), dtype=np.uint64)
        known = Format._floats(every, size).view(np.float32).astype(np.float64)
        out = []
        for x in value.astype(np.float64):
            at = int(np.searchsorted(known, x))
            low, high = max(at - 1, 0), min(at, len(known) - 1)
            near = min((low, high), key=lambda n: (abs(known[n] - x), n & 1))
            out.append(near)
        return np.array(out)


def formats(gen: int) -> dict[int, Format]:
    """By number; INVALID is left out."""
    return {n: Format(name) for n, name in enumerate(isa_names.BUF_FORMATS[gen]) if n}
