"""The sections of shards.py: each measures one promise of shared calls and returns figures by name.

    options.py      the arguments of every section
    real.py         seconds of products on two real devices and on one
    simulated.py    plans for drawn machines: the gap to their bound, and what a player measures
    faults.py       seconds of calls in which a device freezes, slows down or stalls
    planning.py     seconds of planning

A section is a function of options.Options. SECTIONS of shards.py has its name. Called by shards.py
A section is a function of options.Options. SECTIONS of shards.py has its name. Only shards.py calls
it. Figures and the text of ratios are those of _mesh/figures.py.
"""
