"""Recordings of what a driver asked of the kernel: made, read, and replayed on a node.

`recorder.py` records our own runs (docs/recording.md has the file's form), `replay.py` repeats a
recording, emulated or on a card. Streams inside a recording are read by ib/.
"""
