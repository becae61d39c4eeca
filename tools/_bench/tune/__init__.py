"""The tune command's search for a better tile plan than the model's.

space.py says which plans lie beside one, search.py which to sample next (pure), tune.py verifies
and times them on a device and keeps the best, report.py tells of it. Not here: the tile model,
which is the package's (ops). Called by commands/tune.py and benchmarks/_tile_model.
"""
