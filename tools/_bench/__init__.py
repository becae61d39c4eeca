"""The engine behind tools/bench.py: the same for every device, one concern per folder.

commands/ makes jobs (jobs/), measures them (measure/, which also times transfers and peaks) or
searches plans (tune/). The results are rows (rows/), which report/ writes. machine/ describes the
host. Imports go from commands down to jobs. sparkle_drv never imports this engine.
"""
