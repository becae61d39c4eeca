"""The subcommands of pm4.py, a file each, and the inputs that they share (common.py).

Each declares its options in `add(sub)` and names the function that runs it. Only files and printing
are here: everything said about packets comes from sparkle_drv.lowlevel. Called by pm4.py alone.
decode.py encodes, too; diff.py, lint.py and reg.py print what amd/ib finds.
"""
