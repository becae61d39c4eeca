"""A rung, its exceptions, and the report of results.

rung.py has Rung, Result and the exceptions Wrong, Skip, Unmet, Hung. report.py prints lines as they
come and makes the JSON document. No device is touched here. Called by every other folder of
_bringup.
"""
