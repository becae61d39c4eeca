"""Task graphs of a Context: recorded (record.py), looked at, and run (run.py, task.py).

What becomes one task is in fuse, where and in which order tasks run is in place. Single calls are
in run. Called by `Context.graph` alone.
"""
