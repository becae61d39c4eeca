"""Recordings of a driver's calls to the kernel: makes, reads, and replays them on a node.

`recorder.py` records our own runs (docs/recording.md has the file's form), `replay.py` repeats a
recording, emulated or on a card. Streams inside a recording are read by ib/.

    recorder.py    recorded(): starts and ends a recording of this process
    read.py        a recording's lines as events
    args.py        handles, descriptors and times in the arguments of ioctls
    replay.py      repeats calls and jobs, compares memory, stops at the first difference
    node.py        the replay's own handles and memory behind recorded names
"""
