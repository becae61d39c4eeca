"""What the scheduler knows, as data: work, tasks, plans, and how long work takes on each device.

State and arithmetic: it chooses no device and measures nothing. operations.py says how a class of
work is probed, profile.py keeps measured points in a file. Every other room here reads it.
"""
