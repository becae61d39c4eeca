"""The subcommands of bringup.py: ladder, mem and info, and the options that they share.

Each module declares its options in `add(sub)` and names the function that runs it. options.py has
the exit codes and shared options. rungs/ has the experiments, ladder/ the course of a climb. Called
by bringup.py.
"""
