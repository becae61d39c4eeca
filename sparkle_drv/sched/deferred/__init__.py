"""Operators of a Context's arrays: expressions that become one call of `Context.map`.

    numpy_api.py     what core asks for (core/deferred/provider.py), function by function
    expression.py    Expression: a step of one, and its text for the map

The types of steps are those of ops/deferred. Which arrays wait is in run/waiting.py. core imports
numpy_api by name at the first operator.
"""
