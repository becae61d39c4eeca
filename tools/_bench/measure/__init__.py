"""From a job to a row: put it on a device, check it, time it, check it again.

engine.py is the one path to a time; bound.py holds a job's buffers, verify.py judges outputs,
timing.py samples, stop_rule.py says when there are enough. Also here: modes and kinds of
measurement of their own (pipelined, emulated, transfer, launch_cost, peak, versus). Not here: files
and options. Called by commands/ and tune/.
"""
