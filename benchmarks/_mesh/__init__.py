"""The sections of mesh.py: each measures one part of the mesh and returns figures by name.

    figures.py      arguments and results of sections; medians of ratios taken in turns
    plans.py        plans of all_reduce, compared with their lower bound, on simulated ports
    real.py         all_reduce of real devices, compared with numpy on the same memory
    graphs.py       a graph on named cores, compared with pinned processes
    transports.py   staged copies, copies over a third GPU, bytes by transport
    fake.py         the parts that run on the fake driver, in a process of their own

A section is a function of figures.Options, listed by name in SECTIONS of mesh.py. Only mesh.py
calls sections.
"""
