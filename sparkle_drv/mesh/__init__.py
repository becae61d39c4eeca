"""Links between places, and what moves over them: bytes, not work.

A *place* is memory: the host's, or that of one device, named by its URI. `sched` decides which
device works; this room says what a way costs. It imports ops and what is below, never sched.

    links/         what ways take, how that is measured, and routes over them
    lanes/         runs programs of several devices, and moves bytes between them
    collective/    plans of collectives: what is copied and added up where, and how long it takes
    survey.py      measures the ways between devices
    measured.py    what a survey measures, as data, and its names in a profile
    topology.py    Topology: what was measured, corrected by every transfer since
    arguments.py   checks what callers give a Mesh
    mesh.py        Mesh: devices, the ways between them, and collectives of arrays on them
"""
