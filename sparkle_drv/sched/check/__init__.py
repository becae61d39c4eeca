"""Is a result right? Checks in float64 that cost far less than the work, on a share of results.

Only arrays on the host: nothing here waits for a device or knows the scheduler. Arguments are
checked by ops and run/argument_checks.py. Called by run and graph.
"""
