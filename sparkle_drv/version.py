"""The package's version for every layer. pyproject.toml has it too, and a test compares them.

This file imports nothing of the package.
"""

VERSION = "0.1.0"
