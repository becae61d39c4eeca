"""Judges plans that split a call: draws machines from a seed, and plays a plan with rates that
differ from those in the plan.

Used by tests and benchmarks/shards.py.

    machines.py      drawn: unequal devices and work for them; wrong: the same with other rates
    player.py        played_s: the seconds of a plan on such devices, where some may stop or stall
    stop_cost.py     the cost of a device that stops, relative to a planner that foresaw the stop
    plan_quality.py  ratios that judge plans; how often a piece is written; us of a decision
"""
