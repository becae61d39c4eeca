"""Cuts one call among unequal devices: how much each one does, in which pieces, in which order.

Numbers and data: no clock, no device. Which device does a whole call is in decide; threads that do
the pieces are in run (shards.py).

    divide.py     the cut and the shares of a call, from what is known of the devices
    cuts.py       the axes that a call can be cut along
    micro.py      a graph's tasks in micro-batches
    ledger.py     which device does which piece, once; it has a lock
    site.py       Site: one device and what the call costs there; Pace: the same per unit
    plan.py       plan_shares: the plan of the least predicted time
    arguments.py  what is refused, and why
    shares.py     Shares and Piece: the plan as data and in words
    balance.py    units of each device so that all end together, and who is left out
    even.py       corrects units by when devices end; rounds them
    pieces.py     the pieces of one device's part: short, and their transfers and launches overlap
    tail.py       the last part: shrinking chunks for whoever is free
    late.py       when a piece is late, and who does it again
    play.py       the end of each device, by an event simulation
    bound.py      the lower bound of all plans
    limits.py     the most that one device can do in some seconds
"""
