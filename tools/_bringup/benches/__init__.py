"""The benches of rungs. A bench is an open card or device, its facts, and contexts that end with
the rung.

amdgpu.py, cuda.py and api.py each have the Bench of a family. card.py opens an AMD node, hw.py
gives short names to the raw layer, dump.py reads the state after a failure. The experiments are in
rungs/. Called by rungs/ and ladder/.
"""
