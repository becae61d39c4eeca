"""One session over a transport that loses, repeats, reorders and delays messages: items arrive once
and in order, a bulk transfer arrives whole, and a session whose other end is silent ends.

    stream.py      Outgoing, Incoming: numbered items, sent again until they are acknowledged
    credit.py      Credit, ClientCredit: bytes that all senders together may have in flight to one
                   receiver, and the part of each
    bulk.py        Sending, Receiving: a transfer in chunks, in any order
    channel.py     Channel: stream and bulk, with a session's keys
    endpoint.py    Endpoint: a transport's channels; the handshake; the clock
"""
