"""The scheduler decides which device does which work, and runs it there.
From low to high: model, decide, shard, health, journal and check, run, graph. A room imports only
lower ones. `sparkle_drv.context` calls run and graph. Kernels live in ops, links between machines
in cluster.
"""
