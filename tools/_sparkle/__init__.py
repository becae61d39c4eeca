"""The commands of sparkle.py other than info and doctor, one file each: explain, trace, replay,
mesh, certs, node.

Each module has `add(sub, epilog)`, which declares its options and names the function that runs it.
common.py reads sizes and devices; mesh_picture.py draws a mesh. The package makes all decisions.
Only sparkle.py calls these modules.
"""
