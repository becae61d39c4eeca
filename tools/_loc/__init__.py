"""The structure of the sources: folders ("rooms"), their contents, and the imports between them.

tools/loc.py prints the structure and tests/package/test_layers.py checks it. These modules only
read files: they parse Python and resolve C includes, but import and compile nothing.

tree.py finds the sources, imports.py their imports. rooms.py makes rooms of folders, arrows of
imports and circles of arrows. layers.py says which arrows are allowed. tokens.py counts tokens, now
and at an earlier commit.
"""
