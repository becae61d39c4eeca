"""How often the verdicts of compare and of against.py are wrong.

self_compare.py is a script, run by its path. It calls against.py; nothing imports it but its test.
"""
