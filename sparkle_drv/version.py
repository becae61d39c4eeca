"""The package's version, for every layer: pyproject.toml says the same, and a test compares them.

A leaf: imports nothing of ours.
"""

VERSION = "0.1.0"
