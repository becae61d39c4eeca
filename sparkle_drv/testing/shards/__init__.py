"""Judges plans of shares: machines drawn from a seed, and a player with rates that differ from the
plan's.

Called by tests and benchmarks/shards.py.

    machines.py   drawn: unequal devices and work for them; wrong: the same with other rates
    player.py     played_s: the seconds of a plan on such devices, where some may stop or stall
    stops.py      the cost of a device that stops, over a planner that knew of it
    judged.py     plans as ratios; what shared calls write, and how long they decide
"""
