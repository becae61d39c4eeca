"""What happened when: spans on tracks and the arrows between them. A leaf: imports nothing of ours.

    trace.py     what is recorded
    chrome.py    as trace-event JSON, which Perfetto and chrome://tracing show; and a check of it

Nobody records unless asked: whoever might, has a `Trace` or None and tests for it.
"""
