"""The parts of tools/bringup.py, which tests a device by experiments ("rungs"), lowest first.

commands/ has the subcommands. ladder/ runs the rungs of a device one after the other. rungs/ has
the experiments. benches/ has the open devices on which they work. causes/ explains failures.
results/ has the types and the report. Imports go in that order, from commands down to results. The
AMD part reaches the kernel driver only through sparkle_drv.lowlevel. The package does not use this
folder.
"""
