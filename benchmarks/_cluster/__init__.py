"""Parts of cluster.py, which alone starts them.

    side.py      one end of a link as a program: a bare socket, bare Zenoh, or our transport

Rows of remote devices get a program of their own here.
"""
