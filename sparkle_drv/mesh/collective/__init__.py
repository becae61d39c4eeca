"""Plans of collectives: programs of copies and reductions, with their predicted times.

All functions are pure: no device, no thread, no clock. The plans are made for a machine as
links/network.py describes it; `lanes/array_runner.py` runs them.

    builder.py      builds a program, and finds what each step must wait for
    all_reduce.py   recursive doubling, exchange, ring, weighted butterfly, shared memory
    islands.py      all_reduce on islands of places that share memory or have faster links
    moves.py        broadcast, scatter, gather, all_gather, reduce_scatter
    shares.py       the part of the data that each place of the butterfly adds up
    bound.py        lower bounds of the time of collectives
    fluid.py        predicts a program's time: transfers share ports
    choose.py       the all_reduce with the least predicted time; choose_moves.py: the others
"""
