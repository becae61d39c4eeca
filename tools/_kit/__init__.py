"""What runs on a machine that has nothing but Python: archives of wheels, and their first file.

packed.py puts numpy's wheels for several Pythons into one archive and takes them out again;
archive_main.py is the first file of bringup.pyz. Only the standard library is used here. Not here:
what collects the parts (gpu_kit.py, bringup_archive.py), which are the callers, and gpu_run.py.
"""
