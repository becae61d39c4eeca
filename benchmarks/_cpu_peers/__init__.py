"""The peers of cpu_peers.py: ways to compute the same on a CPU, one module each, behind one
interface (base.py). Each lives in a process of its own for each number of threads (child.py,
station.py) and works when it is told to; one that is not installed is absent, with the reason.
The run itself is here too: cases, verification, turns, ratios and the report. Called by
cpu_peers.py; against.py and tile_model.py take its cases and its statistics.
"""

OURS = "sparkle"
NAMES = (OURS, "numpy", "torch", "onnxruntime", "ncnn", "openvino", "numexpr")
