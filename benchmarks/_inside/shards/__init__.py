"""Judges plans that split a call, on machines that are drawn from a seed.

The player (player.py) simulates the run of a plan, at rates that may differ from the plan's. Tests
and benchmarks/shards.py use this folder.

    machines.py      drawn: unequal devices and work for them; wrong: these devices with other rates
    player.py        played_s: the seconds of a plan on such devices, where some may stop or stall
    stop_cost.py     the cost of a device that stops, relative to an ideal run
    plan_quality.py  ratios that judge plans; how often a piece is written; time of a decision
"""
