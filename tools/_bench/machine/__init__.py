"""The machine on which a benchmark runs: its description, its load, its free memory.

env.py describes the machine for a results file. other_load.py watches other processes. noise.py
says what disturbed a row. headroom.py refuses work that does not fit into memory. No device is
opened here. Called by measure/, tune/ and commands/; scripts in benchmarks/ and gpu_kit.py call
env.py, too.
"""
