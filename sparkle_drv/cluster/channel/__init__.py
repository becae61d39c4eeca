"""One session over a transport that loses, repeats, reorders and delays: items arrive once and in
order, bulk arrives whole, a silent peer is lost.

    stream.py      Outgoing, Incoming: numbered items, sent again until they are acknowledged
    credit.py      Credit: how many bytes a receiver lets all its senders have under way
    bulk.py        Sending, Receiving: a transfer in chunks, in any order
    channel.py     Channel: the two above and a session's keys
    endpoint.py    Endpoint: a transport's channels; the handshake; the clock
"""
