"""The backend of devices of other machines: "box1/cuda:0". The backend is the client of a node. It
makes all decisions, and the node makes none.

    hosts.py       hosts.json: addresses by name; one endpoint for all devices behind an address
    renewing.py    renews the certificate of this machine, and those of nodes if the CA is here
    session.py     Session: requests, replies, and the node's reports ("news"), over a channel
    line.py        Line: the client's state of a queue of the node, and its submissions
    transfers.py   uploads and downloads in pieces
    mirror.py      Mirrors: local copies of memory that the host maps
    backend.py     the Backend protocol, built on plugin.Queues and plugin.Kernels
"""
