"""The commands of sparkle.py that look at the scheduler, a file each: explain, trace, replay.

Each has `add(sub, epilog)`, which declares its options and names the function that runs it;
common.py reads sizes and devices. Not here: `info` and `doctor`, which are in sparkle.py, and any
decision, which is the package's (sched). Called by sparkle.py alone.
"""
