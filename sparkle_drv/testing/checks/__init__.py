"""The checks of the conformance suite, one file for each thing a device must do.

A check is a function that takes an open device, leaves it as it was, and raises when the device
does wrong. Nothing in here knows a particular backend.
"""
