"""The sections of shards.py. Each measures one property of shared calls and returns its figures by
name.

    options.py      the arguments of every section
    real.py         seconds of products on two real devices and on one
    simulated.py    plans for random machines: the gap to their bound, and their simulated runs
    faults.py       seconds of calls in which a device freezes, slows down or stalls
    planning.py     seconds of planning

A section is a function of options.Options, listed by name in SECTIONS of shards.py. Only shards.py
calls sections. Figures and the text of ratios are those of _mesh/figures.py.
"""
