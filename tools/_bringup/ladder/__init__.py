"""Runs the ladder of a device: its experiments ("rungs"), lowest first. One run is a "climb".

The experiments themselves are in rungs/. Called by commands/.

    families.py      which rungs a URI has, and which open device they work on
    runner.py        runs rung after rung, each with a time limit
    child.py         runs a climb in a child process, because a rung may crash
    recording.py     --record and --replay of a climb's ioctls
    device_facts.py  the facts that a device gives about itself
    bundle.py        --bundle: the one file to send, with all facts and results
    evidence.py      other programs' records of a hang, for the bundle
"""
