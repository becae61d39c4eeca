"""Cuts one call among unequal devices: how much each one does, in which pieces, in which order.

Numbers and data: no clock, no device. decide chooses a device for a whole call; the threads that do
the pieces are in run (shards.py).

    divide.py         the cut and the shares of a call, from what is known of the devices
    cuts.py           the axes that a call can be cut along
    terms.py          how a call is to be divided, as its caller said
    ledger.py         Ledger: records which device does which piece; threads share it
    site.py           Site: one device, and the costs of a call there; Pace: seconds of its stages
    plan.py           plan_shares: the plan of the least predicted time
    arguments.py      refuses bad arguments
    shares.py         Shares and Piece: the plan as data and as text
    balance.py        units of each device so that all end together, and which are left out
    equal_ends.py     corrects units so that all end together; rounds them
    pieces.py         a device's part in short pieces, so that transfers and launches overlap
    tail.py           the last part: shrinking chunks for any free device
    late_pieces.py    when a piece is late, and which device does it again
    simulation.py     when each device ends its part, by an event simulation
    bound.py          the lower bound of all plans
    limits.py         the most that one device can do in some seconds
"""
