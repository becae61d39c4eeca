"""Is a result right? Checks in float64 that cost far less than the work, on a share of results.

Only arrays on the host: nothing here waits for a device or knows the scheduler. Arguments are
checked by ops and run/argument_checks.py. Called by run and graph.

    validate.py     Freivalds' check of products, samples of conv2d, map and reduce
    bounds.py       running error analysis of an expression: how far off a device may be
    inspector.py    draws which results are checked
"""
