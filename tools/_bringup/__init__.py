"""The parts of tools/bringup.py: rungs by family, the climb, causes, dumps."""
