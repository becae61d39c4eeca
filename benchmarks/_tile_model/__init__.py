"""Parts of benchmarks/tile_model.py."""
