"""The health of devices: a state machine for each one, fed with observations.

No clock, no thread, no device: times are arguments, and the caller holds a lock. The package run
has the threads that submit heartbeats and try lost devices; the package model predicts times.

    device.py      Health: one device, and how each event changes its state
    states.py      State and Transition: the states, and one line of a device's history
    thresholds.py  each limit, and its reason
    backoff.py     how long a lost device is left alone before it is tried
"""
