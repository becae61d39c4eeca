"""Code for calls of all operations: the choice of a tile plan, and the call table.

plans.py chooses a tile plan once per device and shape, and loads its kernel. If there is a tuned
plan, it is chosen; otherwise the plan of the tile model. prepared_call.py has prepared calls.
table.py makes the rows by which C repeats a call. The rules of one operation are in its own folder.
The operations call this folder.
"""
