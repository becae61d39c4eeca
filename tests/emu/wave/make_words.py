"""Adds to wave_words.json the assembler lines that the wave tests ask for: needs llvm-mc-19.

python tests/emu/wave/make_words.py [pytest arguments]
"""

import sys
from pathlib import Path

import pytest
import wavekit

wavekit.RECORDING = True
rc = pytest.main(sys.argv[1:] or ["-q", *map(str, Path(__file__).parent.glob("test_wave_*.py"))])
wavekit.save_words()
sys.exit(rc)
