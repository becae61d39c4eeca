"""Code objects on an emulated card: uploaded, dispatched and waited for as a driver would."""

from __future__ import annotations

import extents
import numpy as np

from sparkle_drv.core.abi.signature import Signature
from sparkle_drv.lowlevel import codeobject, dispatch
from sparkle_drv.testing.emulator import BufferObject, EmulatedGpu

LEVEL = {"gfx1036": 10, "gfx1100": 11}
ENGINES = {"gfx1036": 1, "gfx1100": 6}
WAVES = 64  # of scratch memory, in each shader engine


class Program:
    """One kernel of a code object, on the card."""

    def __init__(self, gpu: EmulatedGpu, chip: str, code: codeobject.CodeObject) -> None:
        self.gpu, self.chip, self.code = gpu, chip, code
        self.bo = gpu.buffer(code.image.nbytes, rights="rwx" if code.image.writable else "rx")
        self.bo.map[: code.image.nbytes] = code.image.place(self.bo.va)

    def close(self) -> None:
        self.bo.close()

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def launch(
        self,
        args: bytes,
        groups: tuple[int, int, int],
        group_size: tuple[int, int, int],
        *,
        bos: list[BufferObject] = (),
        shared: int = 0,
        timeout_s: float = 30.0,
    ) -> None:
        """Runs it with packed arguments and waits; OSError names the fault."""
        code, gpu, own = self.code, self.gpu, []
        code.check_launch(group_size, shared)
        segment = code.kernarg.pack(
            args, groups, group_size, shared=shared, static_lds=code.lds_nbytes
        )
        try:
            own.append(gpu.buffer(max(len(segment), 1), rights="r"))
            own[0].map[: len(segment)] = segment
            scratch = None
            if code.scratch_nbytes:
                engines = ENGINES[self.chip] if LEVEL[self.chip] == 11 else 1
                own.append(gpu.buffer(code.scratch_wave_nbytes * WAVES * engines, rights="rw"))
                scratch = dispatch.Scratch(own[1].va, WAVES)
            ib = dispatch.encode(
                code, gfx=LEVEL[self.chip], code_va=self.bo.va, kernarg_va=own[0].va, groups=groups,
                group_size=group_size, shared=shared, scratch=scratch, engines=ENGINES[self.chip],
            )  # fmt: skip
            gpu.wait(gpu.submit("compute", ib, bos=[self.bo, *own, *bos]), timeout_s)
        finally:
            for buffer in own:
                buffer.close()


class Operand:
    """An array on the card that ends where its memory does: one element more is a fault."""

    def __init__(self, gpu: EmulatedGpu, values: np.ndarray, rights: str) -> None:
        self.buffer = gpu.buffer(max(values.nbytes, 1), rights=rights)
        self.at = self.buffer.nbytes - values.nbytes
        self.buffer.map[self.at :] = values.tobytes()
        self.like = values

    @property
    def va(self) -> int:
        return self.buffer.va + self.at

    def values(self) -> np.ndarray:
        return np.frombuffer(bytes(self.buffer.map[self.at :]), self.like.dtype)


def grid(groups: list[str], signature: Signature, args: list[float]) -> tuple[int, int, int]:
    """A manifest entry's grid for these arguments."""
    given = zip(signature.args, args, strict=True)
    whole = {a.name: int(n) for a, n in given if a.type in ("u32", "u64")}
    sizes = [extents.value(text, whole) for text in groups]
    x, y, z = [*sizes, 1, 1][:3]
    return x, y, z


def packed(signature: Signature, args: list[Operand | float | None]) -> bytes:
    """Arguments as core packs them."""
    values = [a.va if isinstance(a, Operand) else 0 if a is None else a for a in args]
    return signature.args_struct.pack(*values)
