"""Host work beside device work: what pipeline_overlap.py and async_executor.py time.

steps.py is the work of one step on both sides, loops.py runs steps in a row and through a ring of
slots, executor.py sends one frame there and back. Not here: options and reports, which the two
scripts have. Called by those two alone.
"""
