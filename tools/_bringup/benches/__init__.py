"""What rungs work on: an open card or device, its facts, contexts that end with the rung.

amdgpu.py, cuda.py and api.py each have the Bench of a family; card.py opens an AMD node, hw.py
gives the raw layer short names, dump.py reads what a failure left. Not here: what is tested.
Called by rungs/ and ladder/.
"""
