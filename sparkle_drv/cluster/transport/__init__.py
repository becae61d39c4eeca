"""Messages between named endpoints: `base.Transport`, which Zenoh and the in-process Air implement.

    base.py      the protocol; names and lengths of messages
    air.py       in process: loses, repeats, reorders and delays by seed
    engine.py    Zenoh: sessions, keys, liveness, renewal
    senders.py   threads that send; the watchdog
    presence.py  which endpoints are alive, by liveliness tokens
    config.py    endpoints as text; Zenoh's configuration, as measured
    links.py     Zenoh's messages about links that a node refuses
    probe.py     why an address does not answer

Only engine.py imports Zenoh, when an endpoint starts. presence.py and senders.py need no network.
"""
