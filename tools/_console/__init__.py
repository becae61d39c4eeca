"""What every tool does towards the person who runs it: files, tables, progress, exit codes.

command_line.py has the parser of a command line; output.py saves files whole and watches standard
output; table.py draws tables, progress.py one line on a terminal; problems.py has the exceptions
that end a command and the exit codes they become.
Not here: what a tool measures or prints. Called by every script of tools/ and benchmarks/.
"""
