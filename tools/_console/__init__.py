"""What every tool shows to the person who runs it: files, tables, progress, exit codes.

command_line.py has the parser of a command line. output.py writes files whole and guards standard
output. table.py draws tables, progress.py one line on a terminal. problems.py has the exceptions
that end a command, and their exit codes. Every script of tools/ and benchmarks/ uses these modules.
"""
