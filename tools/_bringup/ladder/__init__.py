"""Climbing a ladder: which rungs a URI has, one climb, the child that runs it, what is kept.

families.py chooses rungs and bench; climb.py runs rung after rung with a limit; child.py survives a
crash; recording.py, about.py and bundle.py write down what happened on which device. Not here: the
rungs. Called by commands/.
"""
