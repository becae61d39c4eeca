"""The compilers behind tools/shaders.py, one module each: rdna.py (clang, lld), cuda.py (nvcc).

Each module has NAME (its folder under shaders/), SUFFIX of its sources, TARGETS and the blob's
EXTENSION. Its function `prepare()` raises Failed when a compiler is missing; `compile(source,
target, out)` makes a blob. shaders.py finds stale blobs and writes the manifest. Only shaders.py
calls these modules.
"""


class Failed(Exception):
    """Says that a kernel cannot be built. The text is the reason."""
