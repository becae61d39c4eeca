"""Operators of a Context's arrays: expressions that become one call of `Context.map`.

    numpy_api.py     the functions that core calls (interface: core/deferred/provider.py)
    expression.py    Expression: one step of such an expression, and its text for `Context.map`

Types of steps come from ops/deferred. run/pending_arrays.py keeps the arrays that are not computed
yet. core imports numpy_api by name at the first operator.
"""
