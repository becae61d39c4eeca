"""Parts that benchmarks/cluster.py and the tests of nodes and clients share.

    namespaces.py    machines of network namespaces
    certificates.py  a CA in memory and folders of certificates
    endpoint.py      one end of a link as a program: a bare socket, bare Zenoh, or our transport

What cluster.py measures are programs of endpoint.py, which run on the machines of namespaces.py.
"""
