"""Test equipment, public and apart: the conformance suite that judges every device (suite.py).

May import anything of the package; nothing but tools and tests imports it.
"""
