"""Messages as bytes. Nothing here has state, a thread or a file.

frame.py       a frame: head, MAC, payload; a damaged, forged or long one raises `Damaged`
values.py      msgpack with limits, and checks of a mapping's fields
requests.py    the requests of a session, their fields and limits
"""
