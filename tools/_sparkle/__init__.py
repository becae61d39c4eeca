"""The commands of sparkle.py that look at the scheduler, a file each."""
