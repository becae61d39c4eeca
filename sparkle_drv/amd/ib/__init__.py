"""Indirect buffers (IBs) as people handle them: read, printed, parsed, followed, linted, compared.

tools/pm4.py, bring-up and record/ use it through sparkle_drv.lowlevel. The packets are declared in
tables/; the backend does not need this folder to run.
"""
