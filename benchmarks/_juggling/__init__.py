"""The part of juggling.py that measures real devices (real.py). Called by juggling.py alone."""
