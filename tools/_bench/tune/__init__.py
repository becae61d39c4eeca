"""Searches for the fastest tile plan (command tune) or the fastest point of a sweep (kernel
--search).

Tile plans: space.py gives the neighbours of a plan, and search.py says which to sample next; both
are pure. tune.py verifies and times them on a device and keeps the best; report.py prints the
result. Sweeps: sweep_search.py spends a budget of seconds, chooser.py names the next point, and
surrogate.py models the costs so far. Not here: the tile model, which belongs to the package (ops).
Called by commands/ and benchmarks/_tile_model.
"""
