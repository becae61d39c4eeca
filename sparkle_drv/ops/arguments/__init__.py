"""Checks of arguments that all operations share, and the quoting of values in errors.

The folder uses no device, and no rule here belongs to one operation alone. All of ops and sched
call it.
check.py has the checks, quoting.py the quoting, annotations.py the types.
"""
