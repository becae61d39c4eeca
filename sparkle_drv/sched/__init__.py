"""The scheduler decides which device does which work, and runs it there.

From low to high: model, decide, shard, health, journal and check, run, graph. No room imports a
higher one. `sparkle_drv.context` calls run and graph. Kernels are in ops, links between machines
are not here.
"""
