"""Operators of Arrays: expressions that become one map, views, reductions, and numpy for the rest.

    numpy_api.py     what core asks for (core/deferred/provider.py), function by function
    types.py         numpy's result types, and which step of an expression a map can compute
    node.py          Node: one step of an expression; `run` makes a map of what it needs
    build.py         operators and ufuncs to nodes; what no map computes goes to numpy on the host
    views.py         indexing, assignment, transposes, conversions
    reductions.py    sum to argmin, and products of matrices

core imports numpy_api by name at the first operator. Users reach all of it by an Array.
"""
