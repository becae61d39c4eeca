"""The process that lends devices: what a session asks for is looked up, checked and run by core.

A session names nothing but what it made itself; its requests come in order from channel/.

    process.py     a node on the network, which `sparkle node` runs
    server.py      Node: the devices that are lent, the sessions
    session.py     Session: one client's requests, in their order
    tables.py      allocations by the session's own addresses, kernels, prepared launches
    commands.py    records: every pointer looked up, then recorded by core
    lane.py        Lane: one queue; the thread that submits, the thread that tells of the end
    submissions.py what a lane is given
    transfers.py   bulk that comes and goes, with a limit for all of a session's
    faults.py      errors as errnos and words, for timelines and replies
    quotas.py      what a session may hold
"""
