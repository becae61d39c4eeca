"""Runs a ladder: a URI's rungs, their order, the child process that runs them, its records.

The experiments are in rungs/. Called by commands/.

    families.py                 which rungs and which bench a URI has
    runner.py, child.py         rung after rung, with limits; the same in a process that may crash
    recording.py                --record and --replay of a climb's ioctls
    device_facts.py, bundle.py  a device's own facts; the one file to send
    evidence.py                 other programs' records of a hang, for that file
"""
