"""Rows: what is known once something is measured, and what two sets of rows say of each other.

results.py is the row and the document (schema 1), read.py a row of a file; stats.py has medians and
their intervals, overhead.py what a launch costs beyond the device, affine.py fits, compare.py
differences. Pure: no device, no clock. Called by measure/, report/, tune/, commands/ and
benchmarks/.
"""
