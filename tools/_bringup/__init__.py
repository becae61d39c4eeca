"""The parts of tools/bringup.py: commands/ climb a ladder/ of rungs/, which work on benches/.

causes/ explains what failed, results/ has the types and the report. Arrows go in that order, from
commands down to results. The AMD part speaks to the kernel through sparkle_drv.lowlevel only.
Nothing here is part of the package.
"""
