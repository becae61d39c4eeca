"""Where every line lives: folders as rooms, their contents, and the imports between them.

tools/loc.py prints it and tests/package/test_layers.py judges it. These modules only read files:
they parse Python and resolve C includes, but import and compile nothing.

tree.py finds the sources and imports.py their imports. rooms.py makes rooms, arrows and circles
of them. layers.py says which arrows are allowed. tokens.py counts tokens, now and at an earlier
commit.
"""
