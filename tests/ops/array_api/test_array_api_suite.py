"""array-api-tests, the array API standard's own suite (github.com/data-apis/array-api-tests).

The environment variable ARRAY_API_TESTS names a checkout of it, with its submodule. The tests of
`passes.txt` must pass: a program that was written for the standard then finds what it expects.

When this fails, a program that is written for the standard gets an unexpected result.
"""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PASSES = Path(__file__).with_name("passes.txt")


@pytest.fixture
def suite():
    named = os.environ.get("ARRAY_API_TESTS")
    if not named:
        pytest.skip("ARRAY_API_TESTS names no checkout of array-api-tests")
    missing = [
        name
        for name in ("hypothesis", "ndindex", "pytest_jsonreport")
        if importlib.util.find_spec(name) is None
    ]
    if missing:
        pytest.skip(f"array-api-tests needs {', '.join(missing)}")
    return Path(named)


def test_the_listed_tests_of_the_suite_pass(suite):
    done = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=line",
            "--max-examples=5", "--derandomize", "--disable-deadline", f"@{PASSES}",
        ],
        cwd=suite,
        env={
            **os.environ,
            "ARRAY_API_TESTS_MODULE": "sparkle_drv.ops.array_api",
            "PYTHONPATH": os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", ""))),
        },
        capture_output=True,
        text=True,
        timeout=90,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
    ran = int(re.search(r"(\d+) passed", done.stdout)[1])
    told = int(re.search(r"(\d+) of its tests", (ROOT / "docs/api.md").read_text())[1])
    assert ran == told
