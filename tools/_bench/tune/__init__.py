"""Searches for the fastest: of tile plans (command tune) and in a sweep (kernel --search).

Tile plans: space.py says which plans lie beside one, search.py which to sample next (pure), tune.py
verifies and times them on a device and keeps the best, report.py tells of it. Sweeps:
sweep_search.py spends a budget of seconds, chooser.py says which point is next, surrogate.py models
the costs so far. Not here: the tile model, which is the package's (ops). Called by commands/ and
benchmarks/_tile_model.
"""
