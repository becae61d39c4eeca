"""The backend of devices of other machines: "box1/cuda:0". The backend is the client of a node. It
makes all decisions, and the node makes none.

    hosts.py                hosts.json: addresses by name; one endpoint per address
    certificate_renewal.py  renews this machine's certificate, and nodes' if the CA is here
    session.py              ClientSession: requests, replies and the node's reports ("news")
    line.py                 RemoteTimeline: a queue of the node; RemoteWork: a submission
    transfers.py            uploads and downloads in pieces
    mirror.py               Mirrors: local copies of memory that the host maps
    backend.py              the Backend protocol, built on plugin.Queues and plugin.Kernels
"""
