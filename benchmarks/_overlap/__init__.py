"""Host work that overlaps with device work, which pipeline_overlap.py and async_executor.py time.

steps.py has the work of one step on both sides. loops.py runs steps in a row and through a ring of
slots. executor.py sends frames (input arrays) through the device, one or several at a time. Options
and reports are in the two scripts, which alone use this folder.
"""
