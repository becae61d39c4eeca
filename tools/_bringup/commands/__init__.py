"""The subcommands of bringup.py: ladder, mem and info, and the options that they share.

Each module declares its options in `add(sub)` and names the function that runs it. options.py has
the exit codes and shared options. Not here: the tests, and how a climb goes on. Called by
bringup.py.
"""
