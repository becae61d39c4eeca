"""The language of maps: text or a traced Python function becomes a graph, then a program.

grammar, trace and symbol read it; promote, typed and scalars settle types by numpy's rules; program
and lower write what kernels run. No device and no launch. map, reduce, ref and sched call it.
"""
