"""Records of what happened when, for people: traces and notices. The package imports no other one
of the project.

    trace.py     what is recorded: spans on tracks, and flows between them
    chrome.py    trace-event JSON for Perfetto and chrome://tracing, as a dict; and a check of it
                 (sched/run/trace_files.py writes the file)
    progress.py  reports slow steps on the terminal and in the log

Nothing is recorded unless asked for: code that might record has a `Trace` or None, and tests for
None.
"""
