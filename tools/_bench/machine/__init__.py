"""The machine under a benchmark: what it is, whether it is quiet, whether its memory suffices.

env.py describes it for a results file, quiet.py watches the other processes, noise.py says what
disturbed a row, headroom.py refuses what does not fit. No device is opened here. Called by
measure/, tune/ and commands/; env.py also by scripts in benchmarks/ and by gpu_kit.py.
"""
