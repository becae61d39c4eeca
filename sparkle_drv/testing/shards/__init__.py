"""Judges plans of shares: machines drawn from a seed, and a player with other rates than planned.

Called by tests and benchmarks/shards.py.

    machines.py   drawn: unequal devices and work for them; wrong: the same with other rates
    player.py     played_s: the seconds of a plan on such devices, where some may stop or stall
    stops.py      what a device that stops costs, by who knew of it: it calls the planner
    judged.py     plans as ratios; what shared calls write and how long they decide
"""
