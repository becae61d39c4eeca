"""The scheduler decides which device does which work, and runs it there.
From low to high: model, decide, shard, health, journal and check, run, deferred, graph. A room
imports only lower ones. `sparkle_drv.context` calls run and graph, core asks deferred.
Kernels live in ops, links between machines in cluster.
"""
