"""Types as a user's type checker has them: numpy in, numpy out; words that are misspelled.

When this fails, a user's type checker rejects right code or passes wrong code.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from where import ROOT

ASKED = Path(__file__).parent / "revealed_types.py"
ANSWERS = {
    "f32": r"dtype\[.*(float32|floating\[.*_32Bit\])\]",
    "f64": r"dtype\[.*float64\]",
    "ndarray": r"ndarray\[",
    "Array": r"sparkle_drv\.core\.array\.Array$",
    "ContextArray": r"ContextArray$",
}

pytestmark = pytest.mark.slow


def test_mypy_says_what_is_expected_of_each_line(tmp_path):
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), str(ASKED)]
    done = subprocess.run(
        [*command, "--config-file", str(ROOT / "pyproject.toml"), "--hide-error-context"],
        capture_output=True, text=True, cwd=ROOT, timeout=100,
    )  # fmt: skip
    said = {int(n): (kind, text) for n, kind, text in re.findall(
        r"revealed_types\.py:(\d+): (note: Revealed|error:)(.*)", done.stdout
    )}  # fmt: skip
    assert said, done.stdout + done.stderr
    for number, line in enumerate(ASKED.read_text().splitlines(), 1):
        wanted = line.partition("  # ")[2]
        kind, text = said.pop(number, ("", ""))
        if wanted == "error":
            assert kind == "error:", line
        elif wanted:
            revealed = re.search(r'type is "(.*)"', text)
            assert revealed is not None, (line, text)
            assert re.search(ANSWERS[wanted], revealed[1]), (line, revealed[1])
            assert revealed[1] != "Any", line
    assert not said, said
