"""The scheduler: pure functions decide, one runner acts.

    work.py      what is to be done, as data: operation, size, operands and where they are
    line.py      T = a + b * size, fitted robustly
    speed.py     the time of one operation on one device, learnt from probes and runs
    costs.py     every operation on every device, and the links between devices
    choose.py    from costs and work to a plan, with all candidates and why they lost
    dag.py       task graphs; place.py, improve.py and exact.py: who does which task when
    journal.py   what was told and decided, and the replay that must decide the same;
                 replaying.py: of a file, or with other devices
    graph/       task graphs: recorded, fused, placed by those three, run

    operations.py, calls.py   what can be placed; refused.py: what cannot be; conversion.py: a
                 change of layout before it; arrays.py: arrays that live anywhere
    local.py     the runner; probe.py, profile.py: what it measures and keeps
    named.py     which devices take part only where somebody names them
    ways.py      the ways between devices, measured and gone
    sampled.py   a plan that is kept: which calls are measured, when it is decided anew
    again.py     the short way of a call that was made before
    validate.py, bounds.py    is a result right, and how far off it may be; inspector.py: which
    traced.py, noted.py, recording.py, explain.py   what it shows

Nothing here knows a backend.
"""
