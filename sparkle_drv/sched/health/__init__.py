"""Whether a device is well: a state machine for each one, fed with what was seen of it.

No clock, no thread, no device: times are arguments, and whoever calls holds a lock. Threads that
submit heartbeats and try lost devices are in run; what a device's time predicts is in model.

    device.py      Health: one device, and what each sign of it changes
    states.py      State and Transition: the states, and one line of the story
    thresholds.py  each limit, and why it is that
    backoff.py     how long a lost device is left alone before it is tried
"""
