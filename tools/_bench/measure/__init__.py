"""From a job to a row: put it on a device, check it, time it, check it again.

Every time of a row comes from engine.py. Files and options are the matter of commands/. Called by
commands/ and tune/.

    engine.py                          one row: check, time, check again
    bound.py, verify.py                buffers between guard bands; judges outputs
    timing.py, stop_rule.py            samples hot, cold and latency; says when samples are enough
    pipeline_mode.py                   synchronous, batched and pipelined launches in turns
    interleaved_roofs.py, probes.py    rounds of a row with the roofs' kernels; makes those kernels
    self_test.py                       is this machine quiet enough for measurements now?
    peak.py                            the roofs alone
    versus.py                          kernels compared with each other
    launch_cost.py, transfer.py        ns per launch; ns of moving bytes
    emulated_rows.py                   emulated devices: no time, but counts of ioctls
    devices.py                         opens the devices that -d names
    meter.py, child.py                 rows of a device, measured here or in a child process
"""
