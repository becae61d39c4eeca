"""Rows that only benchmarks/against.py times: calls of this package that other libraries lack.

Most operands are tiny, so that a row's time is the cost of a call and not of its kernel. The rows
use only public names, since they run on earlier commits, too.

    rows.py          every row by its name
    makers.py        the clocks of a row: the host's, and the CPU time of the process
    peer.py          the peer that each build runs: sparkle.py of _cpu_peers, with these rows
    launches.py      launches of a kernel that does almost nothing
    calls.py         operations on a device, by a Context, and shared by two devices
    graphs.py        task graphs, kept and new
    first_call.py    import, sp.init and the first product, each time in a new process
"""
