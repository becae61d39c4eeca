"""The peers of cpu_peers.py: libraries that compute the same cases on a CPU, one module each,
behind one interface (base.py).

Each peer has its own process for each number of threads (child.py, peer_process.py). The process
works only on request. A peer that is not installed is reported as absent, with the reason. This
folder also has the run itself: cases, verification, timing in turns, ratios and the report.
cpu_peers.py starts the run. against.py and tile_model.py use the cases and the statistics.

    sparkle.py, numpy.py, torch.py, onnxruntime.py, openvino.py, ncnn.py, numexpr.py    the peers
    streams.py                           more rows: copies of memory
    cases.py, reference.py               shapes and expressions; operands and the float64 reference
    run.py, peer_process.py, child.py    the run over all processes; one process from both sides
    environment.py                       removes variables that steer numeric libraries
    measure.py                           one case: verify all ways, then time them in turns
    figures.py, goals.py                 medians and ratios; the ratios that the package promises
    report.py, roofs.py                  JSON and Markdown; the machine's roofs, by bench.py
    options.py                           options, exit codes and files that the scripts share
"""

OURS = "sparkle"
NAMES = (OURS, "numpy", "torch", "onnxruntime", "ncnn", "openvino", "numexpr")
