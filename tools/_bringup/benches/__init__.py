"""The benches of rungs: an open card or device, its facts, and contexts that end with the rung.

amdgpu.py, cuda.py and api.py each have the Bench of a family. card.py opens an AMD node, hw.py
gives the raw layer short names, dump.py reads the state after a failure. Not here: the tests.
Called by rungs/ and ladder/.
"""
