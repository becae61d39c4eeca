"""The part of juggling.py that measures real devices (real.py). Only juggling.py calls it."""
