"""Parts of cluster.py and of the tests of clusters.

    namespaces.py    machines of network namespaces
    certificates.py  a CA in memory and folders of certificates
    endpoint.py          one end of a link as a program: a bare socket, bare Zenoh, or our transport

Whatever cluster.py measures runs in side.py, on machines of namespaces.py.
"""
