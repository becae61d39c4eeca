"""Host work beside device work, which pipeline_overlap.py and async_executor.py time.

steps.py has the work of one step on both sides. loops.py runs steps in a row and through a ring of
slots. executor.py sends one frame there and back. Not here: options and reports. Only those two
scripts call it.
"""
