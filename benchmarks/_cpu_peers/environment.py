"""The environment of the peers: variables that steer numeric libraries are removed and reported.

An image of a container may set such variables. An OPENBLAS_CORETYPE for another CPU, for example,
halves numpy's speed. A ratio to such a slowed library would say nothing to its users.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

STEERING = (
    "ATEN_", "ATLAS_", "BLIS_", "DNNL_", "FLEXIBLAS", "GOMP_", "GOTO_", "KMP_", "LIBOMP_", "MKL_",
    "NCNN_", "NPY_", "NUMEXPR_", "NVPL_", "OMP_", "ONEDNN_", "OPENBLAS_", "OPENVINO_", "ORT_", 
    "OV_", "TBB_", "TORCH_", "VECLIB_",
)  # fmt: skip
"""Prefixes of the variables that steer numeric libraries."""
COUNTS = (
    "MKL_NUM_THREADS", "NUMEXPR_MAX_THREADS", "NUMEXPR_NUM_THREADS", "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS", "SPARKLE_THREADS",
)  # fmt: skip
"""Variables for the number of a library's threads; each child gets its own values."""


def removed(env: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables of `env` that the child processes do not get."""
    return {
        name: value
        for name, value in sorted(env.items())
        if name.startswith(STEERING) or name in COUNTS
    }


def cleaned(env: Mapping[str, str], threads: int, home: Path, paths: list[Path]) -> dict[str, str]:
    """Returns the environment of a child process with `threads` threads, without variables that
    steer libraries. SPARKLE_HOME is `home`, which has no tuned plans. Imports come from `paths`.
    """
    kept = {name: value for name, value in env.items() if name not in removed(env)}
    kept |= dict.fromkeys(COUNTS, str(threads))
    kept["SPARKLE_HOME"] = str(home)
    kept["PYTHONPATH"] = os.pathsep.join(str(path) for path in paths)
    return kept
