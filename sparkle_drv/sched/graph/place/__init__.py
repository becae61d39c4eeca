"""From the tasks of a graph to a plan: classes of work, devices, steps, and shared memory.

The choice itself is decide/place_graph.py; measuring what is not known yet is asked of run.
Nothing here launches a task. Called by graph/run.py.
"""
