"""The process that lends devices. It looks up and checks each request of a session, then calls core
to run the request.

A session can name only what it made itself. channel/ delivers its requests in order.

    process.py     a node on the network, which `sparkle node` runs
    server.py      NodeServer: the devices that are lent, the sessions
    session.py     NodeSession: one client's requests, in order
    tables.py      allocations by the session's own addresses, kernels, prepared launches
    commands.py    command records: looks up every pointer, then core makes new records
    lane.py        NodeLane: one queue; one thread submits, one reports ended submissions
    submissions.py the submissions and downloads that a lane runs
    transfers.py   bulk in both directions, with a limit for a whole session
    faults.py      errors as errnos and text, for timelines and replies
    quotas.py      what a session may hold
"""
