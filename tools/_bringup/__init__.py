"""The parts of tools/bringup.py: commands/ climb a ladder/ of rungs/, which work on benches/.

causes/ explains failures; results/ has the types and the report. Imports go in that order, from
commands down to results. The AMD part reaches the kernel only through sparkle_drv.lowlevel. The
package does not use this folder.
"""
