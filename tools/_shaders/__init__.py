"""The compilers behind tools/shaders.py, one module each: rdna.py (clang, lld), cuda.py (nvcc).

Each has NAME (its folder under shaders/), SUFFIX of its sources, TARGETS and the blob's EXTENSION.
It has `prepare()`, which raises Failed when a compiler is missing, and `compile(source, target,
out)`. Not here: which blobs are stale, and the manifest. Only shaders.py calls these modules.
"""


class Failed(Exception):
    """A kernel that cannot be built. The text is the reason."""
