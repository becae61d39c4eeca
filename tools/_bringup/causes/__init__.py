"""Likely causes of a failed rung, ranked: tables of data, and how they are matched.

matching.py has Cause and the ranking. node.py, job.py, coherence.py, cuda.py and api.py are the
tables, by the kind of failure. A cause names the next command to run. Rungs and dumps gather the
facts. Each kind of device chooses its tables in benches/; ladder/ asks for the causes.
"""
