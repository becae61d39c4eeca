"""What every tool does towards the person who runs it: files, tables, progress, exit codes.

command_line.py has the parser of a command line. output.py writes files whole and guards standard
output. table.py draws tables, progress.py one line on a terminal. problems.py has the exceptions
that end a command, and the exit codes that follow from them. Not here: a tool's measurements and
texts. Callers: every script of tools/ and benchmarks/.
"""
