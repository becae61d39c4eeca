"""Links between places, and the bytes that move over them.

A *place* is memory: the host's, or that of one device, named by its URI. `sched` decides which
device works; this package predicts and makes transfers. It imports ops and what is below ops, never
sched.

    links/              times of links, how they are measured, and routes over them
    lanes/              runs programs of several devices, and moves bytes between them
    collective/         plans of collectives: copies, additions, and their predicted time
    survey.py           measures the links between devices
    survey_result.py    the results of a survey as data, and their names in a profile
    topology.py         Topology: measured links, corrected by every transfer since
    arguments.py        checks the arguments of a Mesh
    mesh.py             Mesh: devices, the links between them, and collectives of arrays on them
"""
