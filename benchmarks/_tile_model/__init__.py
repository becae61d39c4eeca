"""The parts of tile_model.py: is the tile model's plan of a product near the best one?

space.py lists plans, timed_product.py runs one on operands that it keeps, measure.py searches row
by row, and report.py prints (space and report are pure). The model belongs to the package, and the
search is tools/_bench/tune/search.py. Only tile_model.py uses this folder.
"""
