"""Rows: the results of measurements, and what two sets of rows say about each other.

results.py has the row and the document (schema 1), read.py reads a row of a file. stats.py has
medians and their intervals, overhead.py the cost of a launch beyond the device's time, affine.py
fits, compare.py differences between files. Pure functions: no device, no clock. Called by measure/,
report/, tune/, commands/ and benchmarks/.
"""
