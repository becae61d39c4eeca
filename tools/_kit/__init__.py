"""Code for a machine that has nothing but Python: archives of wheels, and their first file.

wheel_archive.py packs numpy's wheels for several Pythons into one archive, and unpacks them again.
archive_main.py is the first file of bringup.pyz. Both use only the standard library. gpu_kit.py and
bringup_archive.py collect the parts and call these files; gpu_run.py unpacks.
"""
