"""The engine behind tools/bench.py: one for every device, one concern a folder.

commands/ makes jobs (jobs/), measures them (measure/, transfers and peaks too) or searches plans
(tune/), gets rows (rows/) and writes them (report/); machine/ describes the host. Arrows go from
commands down to jobs. Nothing here is part of the package; the package never imports it.
"""
