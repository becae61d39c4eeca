"""Checks the results of a random share of the calls in float64. A check costs far less than the
work.

All arrays are on the host: no function here waits for a device or imports the scheduler. The
packages sched/run and sched/graph call this package. Arguments are checked elsewhere: in ops and in
run/argument_checks.py.

    validate.py     Freivalds' check of products, samples of conv2d, map and reduce
    bounds.py       running error analysis of an expression: the largest error a device may make
    inspector.py    draws by chance which results are checked
"""
