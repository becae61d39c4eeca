"""Makes recordings of a driver's calls to the kernel driver, reads them, and replays them on a
render node.

`recorder.py` records our own runs (docs/recording.md has the file's form). `replay.py` repeats a
recording, on an emulated or a real card. ib/ reads the streams inside a recording.

    recorder.py    recorded(): starts and ends a recording of this process
    read.py        a recording's lines as events
    args.py        handles, descriptors and times in the arguments of ioctls
    replay.py      repeats calls and jobs, compares memory, stops at the first difference
    node.py        one render node of a replay: its handles and memory in place of the recorded ones
"""
