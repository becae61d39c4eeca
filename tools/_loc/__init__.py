"""Where every line lives: folders as rooms, what they hold, and the arrows between them.

tools/loc.py prints it and tests/package/test_layers.py judges it. Reads files only: Python is
parsed, C includes are resolved, nothing is imported or compiled.

tree.py finds the sources, imports.py what they import, rooms.py makes rooms, arrows and circles of
it, layers.py says which arrows are allowed. tokens.py counts tokens, now and at an earlier commit.
"""
