"""Operations and plans whose calls C tries first: native/hot/calls/op.c, plan.c.

A class that is written in Python is called through a tuple of its arguments and a dict of their
names, and that costs as much as a small product. Objects of the subclasses made here, which have
the same name and mean the same, are called without. Called by gemm and conv2d.
"""

from __future__ import annotations

import inspect
from types import MethodType
from typing import TypeVar

import numpy as np

from sparkle_drv import _hot
from sparkle_drv.core import numpy_layout
from sparkle_drv.core.device import Device
from sparkle_drv.core.kernel import Kernel
from sparkle_drv.ops.arguments import check

T = TypeVar("T")


def operation(name: str, kind: type[T], key: str) -> T:
    """The object that is called `name` in its module: `kind` is asked when there is no table at
    `dev.kept[key]`, or when the table leaves a call alone. How a call is written, and what it means
    where it says nothing, C learns from the signature of `kind.__call__`: (self, dev, ...).
    """
    method = vars(kind)["__call__"]
    values = list(inspect.signature(method).parameters.values())[2:]
    signature = (
        tuple(p.name for p in values),
        sum(p.kind is p.POSITIONAL_OR_KEYWORD for p in values),
        {p.name: p.default for p in values if p.default is not p.empty},
    )
    made = _hot.op(name, kind, key, Device, (np.empty, check.ACTIVATIONS), signature)()
    vars(made)["__signature__"] = inspect.signature(MethodType(method, made))
    return made


plans = _hot.direct
"""The subclass of a class of plans."""


def there(kernel: Kernel) -> bool:
    """Can C hand this kernel numpy's memory, and launch it by itself? Its device then takes host
    pointers, the kernel its arguments alone (native/core/args.h), the queue native calls. C reads
    numpy's arrays as structs (core/numpy_layout.py).
    """
    dev = kernel.device
    if kernel.form != "routine" or not dev.info.unified or not numpy_layout.known():
        return False
    return dev.default_queue._handle_at != 0


def head_of(kernel: Kernel) -> bytes:
    """The head of a record that launches a routine."""
    head = kernel._heads.get(None)
    return kernel._head((), None, None, 0) if head is None else head
