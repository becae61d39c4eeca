"""Searches for the fastest tile plan (the tune command) or the fastest point of a sweep (kernel
--search).

Tile plans: space.py lists the neighbours of a plan, and search.py says which plan to sample next;
both are pure. tune.py verifies and times plans on a device and keeps the best; report.py prints the
result. Sweeps: sweep_search.py spends a budget of seconds, chooser.py chooses the next point, and
surrogate.py models the costs so far. The tile model belongs to the package (ops). Called by
commands/ and benchmarks/_tile_model.
"""
