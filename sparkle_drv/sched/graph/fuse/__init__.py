"""Which tasks of a graph become one before they are placed.

Rewriting of tasks and expressions; fold.py changes weights on the host. Nothing here chooses or
calls a device. Called by graph, and compose.py by place.
"""
