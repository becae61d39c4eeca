"""The backend of devices of other machines: "box1/cuda:0". It is the client of a node, and makes
all decisions; the node makes none.

    hosts.py       hosts.json: addresses by name; one endpoint for all devices behind an address
    renewing.py    renews certificates: ours, and those of nodes if the CA is here
    session.py     Session: requests, their replies, and news, over a channel
    line.py        Line: a queue as the node has it, and its submissions
    transfers.py   uploads and downloads in pieces
    mirror.py      Mirrors: local copies of memory that the host maps
    backend.py     the Backend protocol, on plugin.Queues and plugin.Kernels
"""
