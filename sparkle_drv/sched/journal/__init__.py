"""What is told of decisions: the journal, its replay, and plans and devices in words.

It decides nothing and runs nothing; traces of time are in telemetry and run. Called by run and
graph, which write the journal, and by `sparkle_drv.context`.

    journal.py          events and decisions, a JSON line each
    replaying.py        decides a saved journal again, also with changed costs
    explain.py          plans of calls, and devices, in words
    explain_graph.py    plans of graphs in words
"""
