"""Records and explains decisions: the journal, its replay, and descriptions of devices.

This package decides nothing and runs nothing. Traces of times are in telemetry and run. run and
graph write the journal; `sparkle_drv.context` calls the rest.

    journal.py           events and decisions, one JSON line each
    journal_replay.py    decides a saved journal again, also with changed costs
    explain.py           describes devices
"""
