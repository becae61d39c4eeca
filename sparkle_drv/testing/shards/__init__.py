"""Judges plans of shares: machines drawn from a seed, and a player with other rates than planned.

Knows no planner. Called by tests.

    machines.py   drawn: unequal devices and work for them; wrong: the same with other rates
    player.py     played_s: the seconds of a plan on such devices, where some may stop or stall
"""
