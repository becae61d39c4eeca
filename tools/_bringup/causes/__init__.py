"""Likely causes of a failed rung, ranked: tables of data, and how they are matched.

matching.py has Cause and the ranking; node.py, job.py, coherence.py, cuda.py and api.py are the
tables, by what failed. A cause names the next command to run. Not here: the facts, which rungs and
dumps gather. Called by benches/ (which table holds) and ladder/ (who asks).
"""
