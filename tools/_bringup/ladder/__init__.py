"""Climbing a ladder: a URI's rungs, one climb, the child process that runs it, its records.

The experiments are in rungs/. Called by commands/.

    families.py             which rungs and which bench a URI has
    climb.py, child.py      rung after rung, each with a limit; the same in a process that may crash
    recording.py            --record and --replay of a climb's ioctls
    about.py, bundle.py     a device's own facts; the one file to send
    evidence.py             other programs' records of a hang, for that file
"""
