"""Checks of arguments that all operations share, and how errors quote a value.

Pure: no device, and no rule that concerns one operation only. All of ops and sched call it.
check.py has the checks, words.py the quoting, annotations.py the types.
"""
