"""From a job to a row: put it on a device, check it, time it, check it again.

engine.py is the one path to a time of a row. Not here: files and options. Called by commands/
and tune/.

    engine.py                      one row: check, time, check again
    bound.py, verify.py            buffers between guard bands; judges outputs
    timing.py, stop_rule.py        samples hot, cold and latency; when there are enough
    pipelined.py                   synchronous, batched and pipelined launches in turns
    beside.py, probes.py           rounds of a row and the roofs' kernels; makes those kernels
    self_test.py                   can the machine be measured on now?
    peak.py                        roofs by themselves
    versus.py                      kernels against each other
    launch_cost.py, transfer.py    ns of a launch; ns of moving bytes
    emulated.py                    emulated devices: no time, but counts of ioctls
    devices.py                     opens what -d names
    meter.py, child.py             rows of a device, measured here or in a child process
"""
