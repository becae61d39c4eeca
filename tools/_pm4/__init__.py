"""What tools/pm4.py is made of: a module a subcommand, and what they share in common.py.

Everything said about packets comes from sparkle_drv.lowlevel; only files and printing are here.
"""
