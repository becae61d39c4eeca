"""The compilers behind tools/shaders.py, one module each: rdna.py (clang, lld), cuda.py (nvcc).

Each has NAME (its folder under shaders/), SUFFIX of its sources, TARGETS and the blob's EXTENSION,
`prepare()`, which raises Failed when a compiler is missing, and `compile(source, target, out)`. Not
here: which blobs are stale, and the manifest. Called by shaders.py alone.
"""


class Failed(Exception):
    """Something that cannot be built, in words."""
