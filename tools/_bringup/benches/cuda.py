"""What the rungs of cuda work on: the driver library through the package's own native functions,
then the device through the public API. SPARKLE_LIBCUDA works as in `sparkle_drv.open`.
"""

from __future__ import annotations

import os
import re
from typing import Any

from _bringup.causes.cuda import CAUSES
from sparkle_drv.lowlevel import cuda_driver as driver

from . import api as bench_api

# The package's errors have the form "cuCall: NAME ..." or "... says NAME to cuInit".
_SAID = re.compile(r"\b(CUDA_ERROR_[A-Z_0-9]+)")
_CALL = re.compile(r"\b(cu[A-Z]\w+)")


class Bench(bench_api.Bench):
    """One device by its URI, cuda:N."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self.causes = CAUSES
        self.ordinal = int(uri.partition(":")[2] or 0)
        self.first = os.environ.get("SPARKLE_LIBCUDA", "")

    def probe(self) -> tuple[int, Any]:
        """Looks for the driver library and calls cuInit. Returns (0 or -errno, struct sp_dl_cuda
        with the libraries tried and cuInit's result).
        """
        return driver.asked(self.first)

    def autopsy(self, error: BaseException) -> dict[str, Any]:
        """Returns the facts about a failure, among them the driver's call and its result, read from
        the error's text.
        """
        found = super().autopsy(error)
        text = str(error)
        result, call = _SAID.search(text), _CALL.search(text)
        if result:
            found["cuda_result"] = result[1]
        if call:
            found["cuda_call"] = call[1]
        return found
