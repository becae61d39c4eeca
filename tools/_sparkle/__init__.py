"""The commands of sparkle.py beside info and doctor, one file each: explain, trace, replay, mesh,
certs, node.

Each has `add(sub, epilog)`, which declares its options and names the function that runs it.
common.py reads sizes and devices; mesh_picture.py draws a mesh. Not here: decisions, which the
package makes. Only sparkle.py calls these modules.
"""
