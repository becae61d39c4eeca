"""Messages as bytes. Nothing here has state, a thread or a file.

frame.py              a frame: head, MAC, payload; raises `Damaged` for a bad frame
values.py             msgpack with limits, and checks of a mapping's fields
requests.py           the requests of a session, their fields and limits
dataclass_codec.py    DeviceInfo, Resources and TilePlan as mappings
"""
