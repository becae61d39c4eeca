"""The commands of sparkle.py that look at the scheduler or the mesh, a file each: explain, trace,
replay, mesh.

Each has `add(sub, epilog)`, which declares its options and names the function that runs it;
common.py reads sizes and devices, mesh_picture.py draws a mesh. Not here: `info` and `doctor`,
which are in sparkle.py, and any decision, which is the package's. Called by sparkle.py alone.
"""
