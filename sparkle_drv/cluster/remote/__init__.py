"""The backend of devices of other machines: "box1/cuda:0". It is a client of a node and its
scheduler: nothing is decided at the node.

    hosts.py       hosts.json: the address of a name; one endpoint for all devices behind an address
    renewing.py    certificates that renew themselves: ours, and those of nodes where the CA is
    session.py     Session: requests, their replies, and news, over a channel
    line.py        Line: a queue as the node has it, and the submissions that it was given
    transfers.py   uploads and downloads in pieces
    mirror.py      Mirrors: local copies of memory that the host maps
    backend.py     the Backend protocol, on plugin.Queues and plugin.Kernels
"""
