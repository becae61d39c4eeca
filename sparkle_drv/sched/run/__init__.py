"""What acts on one machine: the executor, its arrays, and the calls of a Context.

It probes devices, moves arrays, runs what decide chose, and tells model how long it took. Task
graphs are in graph. Called by graph and `sparkle_drv.context`.
"""
