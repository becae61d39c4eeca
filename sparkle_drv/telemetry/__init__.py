"""What happened when, for people: traces and notices. A leaf: imports nothing of ours.

    trace.py     what is recorded: spans on tracks and the arrows between them
    chrome.py    as trace-event JSON, a dict for Perfetto and chrome://tracing; and a check of it
                 (sched/run/trace_files.py writes the file)
    progress.py  what takes long is told on the terminal and in the log

Nobody records unless asked: code that might record has a `Trace` or None and tests for it.
"""
