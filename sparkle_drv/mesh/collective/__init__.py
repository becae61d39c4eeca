"""Plans of collectives: programs of copies and reductions, and what they are predicted to take.

Pure: no device, no thread, no clock. `lanes/carry.py` runs the programs. They are planned for what
`links/network.py` says of a machine.

    builder.py      writes a program down, and finds out what each step must wait for
    all_reduce.py   recursive doubling, exchange, ring, weighted butterfly, shared memory
    islands.py      all_reduce on islands of places that share memory or have faster links
    moves.py        broadcast, scatter, gather, all_gather, reduce_scatter
    shares.py       how much of the data each place of the butterfly adds up
    bound.py        what no collective can take less than
    fluid.py        predicts a program's time: transfers share ports
    choose.py       the all_reduce that is predicted to take least; choose_moves.py: the others
"""
