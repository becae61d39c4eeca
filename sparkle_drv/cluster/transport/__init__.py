"""Messages between named endpoints: `base.Transport`, which Zenoh and the in-process Air implement.

    base.py      the protocol
    air.py       in process: loses, repeats, reorders and delays by seed
    engine.py    Zenoh: sessions, keys, liveness, the watchdog
    config.py    the engine's configuration, as measured
"""
