"""Code for a machine that has nothing but Python: archives of wheels, and their first file.

packed.py packs numpy's wheels for several Pythons into one archive, and unpacks them again.
archive_main.py is the first file of bringup.pyz. Both use only the standard library. Not here:
collecting the parts. gpu_kit.py, bringup_archive.py and gpu_run.py call these files.
"""
