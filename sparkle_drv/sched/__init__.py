"""The scheduler decides which device does which work, and runs the work there.

The packages from low to high: model, decide, shard, operations, health, journal, run, deferred,
graph. A package imports only lower ones. `sparkle_drv.context` calls run and graph; core calls
deferred. Kernels are in `sparkle_drv.ops`, links between machines in `sparkle_drv.cluster`.

A call is a Request: a Task as data (model/task.py), and the arrays beside it. It is planned, then
performed. Which file decides what:

    what an operation is: shapes, class of work, cuts, launch, check    operations/NAME.py
    whether a call has a plan already                                   run/calls.py
    which device does a call                                            decide/choose.py
    when that is decided anew, and which calls are measured             decide/kept_plan.py
    whether a call goes to a busy device                                run/call_plan.py
    how a call is cut among devices, and in which pieces                shard/divide.py, plan.py
    whether a piece is late, and who does it again                      shard/late_pieces.py
    what becomes one task of a graph                                    graph/fuse/merge.py
    where a graph's tasks run, in which order                           decide/place_graph.py
    how fast work and links are                                         model/speed.py, costs.py
    whether a device is healthy                                         health/device.py
    whether another device may redo a failed call                       run/failures.py
    how a run is timed                                                  run/stopwatch.py
"""
