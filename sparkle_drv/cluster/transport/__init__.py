"""Messages between named endpoints. `base.MessageTransport` is the protocol. Engine implements it
over Zenoh, and Air inside one process.

    base.py      the protocol; names and lengths of messages
    air.py       in process: loses, repeats, reorders and delays messages by a seed
    engine.py    Zenoh: sessions, key expressions, liveness, renewal of certificates
    senders.py   the threads that send; the time limit of a message
    presence.py  which endpoints are alive, by Zenoh's liveliness tokens
    config.py    endpoints as text; Zenoh's settings, which measurements chose
    access.py    who may send, receive and see which messages, by the certificate
    links.py     Zenoh's log lines about links that a node refuses
    probe.py     why an address does not answer; proves a certificate to a gate
    gate.py      lets only peers with a certificate connect to a node's Zenoh
    steering.py  how the kernel divides new connections between a gate and Zenoh

Only engine.py imports Zenoh, when an endpoint starts. presence.py and senders.py need no network.
"""
