"""The sections of mesh.py: each measures one part of the mesh and returns figures by name.

    figures.py      what sections are given and return; medians of ratios taken in turns
    plans.py        plans of all_reduce by their lower bound, on networks of simulated ports
    real.py         all_reduce of real devices by numpy on the same memory
    graphs.py       a graph on named cores by pinned processes
    transports.py   staged copies, copies over a third GPU, bytes by transport
    fake.py         what of that runs on the fake driver, in a process of its own

A section is a function of figures.Options. SECTIONS of mesh.py has its name. Called by mesh.py
alone.
"""
