"""The parts of tile_model.py: is the tile model's plan of a product near the best one?

space.py says which plans there are, held.py runs one on operands that it keeps, measure.py searches
row by row, report.py tells (space and report are pure). Not here: the model, which is the
package's, and the search, which is tools/_bench/tune/search.py. Called by tile_model.py alone.
"""
