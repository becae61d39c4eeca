"""Code for a machine that has nothing but Python: it packs wheels, and starts bringup.pyz.

wheel_archive.py packs numpy's wheels for several Pythons into one archive, and unpacks them again.
archive_main.py is the file of bringup.pyz that Python runs first. Both use only the standard
library. gpu_kit.py and bringup_archive.py collect the parts and call these files; gpu_run.py
unpacks.
"""
