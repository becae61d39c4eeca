"""Climbing a ladder: which rungs a URI has, one climb, the child that runs it, what is kept.

Not here: the rungs. Called by commands/.

    families.py             which rungs and which bench a URI has
    climb.py, child.py      rung after rung, each with a limit; in a process that may crash
    recording.py            --record and --replay of a climb's ioctls
    about.py, bundle.py     what a device says of itself; the one file to send
    evidence.py             what others wrote down of a hang, for that file
"""
