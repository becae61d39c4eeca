"""Messages as bytes. Nothing here has a thread or a file, and only seal.py has state.

frame.py              a frame: head and payload; raises `Damaged` for a bad frame
seal.py               encryption of frames, and refusal of forged and repeated ones
values.py             msgpack with limits, and checks of a mapping's fields
requests.py           the requests of a session, their fields and limits
dataclass_codec.py    DeviceInfo, Resources and TilePlan as mappings
"""
