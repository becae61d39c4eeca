"""The sections of shards.py: each measures one promise of shared calls and returns figures by name.

    options.py      what sections are given
    real.py         products on real devices, by those of one device
    simulated.py    plans on drawn machines, by their lower bound and by a player of plans
    faults.py       devices that freeze or slow down in mid-run, launches that stall
    planning.py     what a plan takes, and what a seen shape adds to a call

A section is a function of options.Options. SECTIONS of shards.py has its name. Called by shards.py
alone; figures and how ratios are told are those of _mesh/figures.py.
"""
