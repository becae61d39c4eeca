"""The scheduler decides which device does which work, and runs the work there.

The packages from low to high: model, decide, shard, health, journal and check, run, deferred,
graph. A package imports only lower ones. `sparkle_drv.context` calls run and graph; core calls
deferred. Kernels are in `sparkle_drv.ops`, links between machines in `sparkle_drv.cluster`.
"""
