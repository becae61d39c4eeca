"""Operators of a Context's arrays: expressions that become one call of `Context.map`.

`numpy_api` has the functions that core calls (interface: core/deferred/provider.py). core imports
it by name at the first operator. Types of steps come from ops/deferred.
"""
