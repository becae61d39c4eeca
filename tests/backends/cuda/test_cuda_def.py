"""native/dl/cuda.def against NVIDIA's own header, where a toolkit is installed; and what holds
without one.

When this fails, a call into NVIDIA's driver passes arguments of the wrong type.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from where import ROOT

TEXT = (ROOT / "native/dl/cuda.def").read_text()
ROWS = re.findall(
    r"^SP_CU\((required|optional), (\d+), (\w+),\s*\((.*?)\),\s*\((.*?)\)\)", TEXT, re.M | re.S
)
HEADERS = sorted(Path("/usr/local").glob("cuda*/include/cudaTypedefs.h"))


def base(name: str) -> str:
    return re.sub(r"_v\d+$", "", name)


def count(parameters: str) -> int:
    return 0 if parameters.strip() in ("", "void") else parameters.count(",") + 1


def test_every_line_is_read():
    assert len(ROWS) == len(re.findall(r"^SP_CU\(", TEXT, re.M)) > 60
    assert len({name for _, _, name, _, _ in ROWS}) == len(ROWS)


def test_arguments_are_the_parameters():
    for _, _, name, parameters, arguments in ROWS:
        named = [re.search(r"(\w+)$", p.strip())[1] for p in parameters.split(",")]
        assert named == [a.strip() for a in arguments.split(",")], name


@pytest.mark.skipif(not HEADERS, reason="needs NVIDIA's cudaTypedefs.h")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[2])
def test_the_header_has_that_function_at_that_version(row):
    """Also that no ABI of a later version is meant: the suffix and the version belong together."""
    _, version, name, parameters, _ = row
    text = HEADERS[-1].read_text()
    typed = rf"PFN_{base(name)}_v{version}(?:_ptsz)?\)\(([^;]*)\);"
    found = re.search(typed, text)
    assert found, f"{name}: no ABI of CUDA {version}"
    assert count(found[1]) == count(parameters), found[1]
    versions = sorted(int(v) for v in re.findall(rf"\*PFN_{base(name)}_v(\d+)\)", text))
    suffix = re.search(r"_v(\d+)$", name)
    older = [v for v in versions if v < int(version)]
    if not suffix:
        assert not older, f"{name} without a suffix is the ABI of {versions[0]}"


@pytest.mark.skipif(not HEADERS, reason="needs NVIDIA's cudaTypedefs.h")
def test_results_and_attributes_have_nvidias_values():
    header = HEADERS[-1].with_name("cuda.h").read_text()
    ours = (ROOT / "native/cuda/device/driver.h").read_text()
    errors = dict(re.findall(r"^\s+CUDA_ERROR_(\w+)\s*=\s*(\d+)", header, re.M))
    results = re.search(r"/\* CUresult \*/\nenum \{(.*?)\};", ours, re.S)[1]
    for name, value in re.findall(r"CU_(\w+) = (\d+)", results):
        assert name == "OK" or errors[name] == value, name
    attributes = dict(re.findall(r"CU_DEVICE_ATTRIBUTE_(\w+) = (\d+)", header))
    known = {
        "MAX_THREADS": "MAX_THREADS_PER_BLOCK", "MAX_BLOCK_X": "MAX_BLOCK_DIM_X",
        "MAX_GRID_X": "MAX_GRID_DIM_X", "SHARED": "MAX_SHARED_MEMORY_PER_BLOCK",
        "CLOCK_KHZ": "CLOCK_RATE", "UNITS": "MULTIPROCESSOR_COUNT", "INTEGRATED": "INTEGRATED",
        "L2": "L2_CACHE_SIZE", "MAJOR": "COMPUTE_CAPABILITY_MAJOR",
        "MINOR": "COMPUTE_CAPABILITY_MINOR", "POOLS": "MEMORY_POOLS_SUPPORTED",
        "SHARED_OPTIN": "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN",
    }  # fmt: skip
    mine = re.search(r"/\* CUdevice_attribute \*/\nenum \{(.*?)\};", ours, re.S)[1]
    for name, value in re.findall(r"CU_(\w+) = (\d+)", mine):
        assert attributes[known[name]] == value, name
