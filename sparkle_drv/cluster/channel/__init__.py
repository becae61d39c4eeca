"""One session over a transport that loses, repeats, reorders and delays messages: items arrive once
and in order, bulk arrives whole, and a silent peer is lost.

    stream.py      Outgoing, Incoming: numbered items, sent again until they are acknowledged
    credit.py      Credit: bytes that a receiver allows all its senders to have in flight
    bulk.py        Sending, Receiving: a transfer in chunks, in any order
    channel.py     Channel: stream and bulk, with a session's keys
    endpoint.py    Endpoint: a transport's channels; the handshake; the clock
"""
