"""Choosing devices: one for a call, a schedule for a task graph, and when to decide again.

Pure functions of the costs and the work: no clock, no input or output. The same costs give the
same plan, so the journal can decide again. Called by run, graph and the journal.
"""
