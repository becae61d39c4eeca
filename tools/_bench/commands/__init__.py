"""The subcommands of bench.py: each declares its options and names the function that runs it.

options.py has what several share; runner.py makes rows one by one and writes after each; listing.py
and baseline.py serve one command each. Not here: how a row is measured (measure/) or shown
(report/). Called by bench.py; scripts in benchmarks/ call no command.
"""
