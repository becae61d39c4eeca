"""Checks results in float64, for a share of the calls, at far less than the cost of the work.

The arrays are on the host: nothing here waits for a device or knows the scheduler. ops and
run/argument_checks.py check arguments. Called by run and graph.

    validate.py     Freivalds' check of products, samples of conv2d, map and reduce
    bounds.py       running error analysis of an expression: the largest error a device may make
    inspector.py    draws which results are checked, by chance
"""
