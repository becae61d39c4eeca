"""The subcommands of pm4.py, one file each, and their shared inputs (common.py).

Each module declares its options in `add(sub)` and names the function that runs it. The modules only
read files and print: all knowledge of packets comes from sparkle_drv.lowlevel. decode.py also
encodes; diff.py, lint.py and reg.py print the findings of amd/ib. Only pm4.py calls these modules.
"""
