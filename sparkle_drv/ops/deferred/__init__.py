"""Operators of Arrays: expressions that become one map, views, reductions, and numpy for the rest.

    numpy_api.py     implements the interface of core/deferred/provider.py
    types.py         numpy's result types, and which step of an expression a map can compute
    node.py          DeferredNode: one step of an expression; `run` computes it in one map
    build.py         makes nodes of operators and ufuncs, or calls numpy on the host
    views.py         indexing, assignment, transposes, conversions
    reductions.py    sum to argmin, and products of matrices

core imports numpy_api by name at the first operator. Users use this folder through Arrays.
"""
