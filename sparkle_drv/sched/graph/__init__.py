"""Task graphs, `Context.graph`: written down, fused, placed, run.

record.py    what Context.graph returns: operations are written down (outline.py, given.py:
             checked), as tasks and arrays (data.py)
fuse.py      which become one: expressions (compose.py), epilogues of products (epilogue.py,
             fold.py); traffic.py: bytes that tasks move; reuse.py: memory used again
layouts.py   which changes of layout cancel, and which can be done without
decide.py    from tasks to a plan (plan.py): classes of work (classes.py), a placement
             (place.py), steps (steps.py)
run.py, task.py   what runs them; look.py: looks at results; explain.py: what was decided
"""
